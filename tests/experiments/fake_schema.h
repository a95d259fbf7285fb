// A schema of its own for the tests of configs, so that they do not change with the encodings.
#pragma once

#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <functional>
#include <string>

#include "experiments/load.h"
#include "experiments/schema.h"

namespace longshot {
namespace {

struct FakeTask {
  using Arguments = std::tuple<>;
  virtual ~FakeTask() = default;
};
struct FakeEncoding {
  using Arguments = std::tuple<>;
  virtual ~FakeEncoding() = default;
};
struct FakePositions {
  using Arguments = std::tuple<>;
  virtual ~FakePositions() = default;
};

template <class Interface, class Options>
struct Fake : Interface {
  explicit Fake(const Options&) {}
};

struct NoOptions {
  void fields(FieldVisitor&) {}
};
struct SumOptions {
  int64_t digits = 5;
  void fields(FieldVisitor& visit) { visit.field("digits", digits, "digits", at_least(1)); }
};
struct TextOptions {
  std::string corpus;
  void fields(FieldVisitor& visit) { visit.field("corpus", corpus, "a file", file_path()); }
};
struct RopeOptions {
  double base = 10000;
  std::string pairing = "interleaved";
  ConfigValue scaling = ConfigValue::table({});
  void fields(FieldVisitor& visit) {
    visit.field("base", base, "frequency base", above(1));
    visit.field("pairing", pairing, "lanes", one_of({"interleaved", "half"}));
    visit.field("scaling", scaling, "scaling", "table with type and factor");
  }
};
struct CapacityOptions {
  int64_t capacity = 2048;
  void fields(FieldVisitor& visit) { visit.field("capacity", capacity, "rows", at_least(1)); }
};
struct RandomizedOptions {
  int64_t max = 2048;
  void fields(FieldVisitor& visit) { visit.field("max", max, "largest position", at_least(1)); }
};

template <class Interface, class Options>
using RegisterFake = RegisterType<Interface, Fake<Interface, Options>, Options>;
const RegisterFake<FakeTask, NoOptions> kReverse{"reverse_string", "reversed"};
const RegisterFake<FakeTask, SumOptions> kSum{"sum", "sums"};
const RegisterFake<FakeTask, TextOptions> kText{"text", "a file"};
const RegisterFake<FakeEncoding, NoOptions> kNone{"none", "nothing"};
const RegisterFake<FakeEncoding, RopeOptions> kRope{"rope", "rotations"};
const RegisterFake<FakeEncoding, CapacityOptions> kLearned{"learned", "a table"};
const RegisterFake<FakeEncoding, CapacityOptions> kOneHot{"one_hot", "an index"};
const RegisterFake<FakePositions, NoOptions> kContiguous{"contiguous", "0, 1, 2"};
const RegisterFake<FakePositions, RandomizedOptions> kRandomized{"randomized", "drawn"};

inline const Schema& fake_schema() {
  static const Schema schema(
      section_types<FakeTask>("task", "task", ""),
      section_types<FakeEncoding>("encoding", "encoding", "none"),
      section_types<FakePositions>("positions", "position sampler", "contiguous"));
  return schema;
}

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "longshot-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string usage_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace
}  // namespace longshot
