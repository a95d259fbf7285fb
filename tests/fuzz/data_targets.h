// What the fuzzers do with an input: the loaders of tasks "jsonl" and "text" as a run uses them,
// file mapping included. A UsageError is a fine answer; anything else that is thrown, any broken
// invariant, and whatever a sanitizer finds is a bug.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "core/config.h"
#include "core/error.h"
#include "data/task.h"

namespace longshot::fuzz {

// A file in memory, with a path under which it can be opened.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    for (size_t done = 0; done < size;) {
      const ssize_t written = ::write(descriptor_, data + done, size - done);
      if (written <= 0) std::abort();
      done += size_t(written);
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

inline void set(ConfigTable& table, const char* key, ConfigValue::Variant value) {
  table.set(key, ConfigValue(std::move(value), {}));
}

inline void require(bool condition) {
  if (!condition) std::abort();
}

// First byte: options. The rest: the file, for both training and test.
inline void jsonl(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const uint8_t choice = data[0];
  const MemoryFile file(data + 1, size - 1);
  ConfigTable table;
  set(table, "train", file.path());
  set(table, "test", file.path());
  constexpr const char* kTargets[] = {"per_token", "per_sequence", "placeholders", "per_token"};
  set(table, "target", std::string(kTargets[choice & 3]));
  set(table, "strings", std::string(choice & 4 ? "character" : "byte"));
  try {
    const auto task = make_task("jsonl", table);
    const TaskSpec spec = task->spec();
    Example example;
    for (const int64_t length : task->lengths(Split::test))
      for (int64_t i = 0; i < task->count(Split::test, length); ++i) {
        task->example({1, Split::test, length, uint64_t(i), 0}, example);
        require(int64_t(example.input.size()) == length);
        require(int64_t(example.target.size()) <= task->output_length(length));
        for (const int32_t id : example.input) require(id >= 0 && id < spec.input_vocabulary);
        for (const int32_t id : example.target) require(id >= -1 && id < spec.output_classes);
      }
  } catch (const UsageError&) {
  }
}

// Four bytes: objective and fractions, window length, stride, evaluate_bytes. The rest: the corpus.
inline void text(const uint8_t* data, size_t size) {
  if (size < 4) return;
  const bool masked = data[0] & 1;
  const int64_t length = 1 + data[1] % 64, stride = data[2] % 80;
  const MemoryFile file(data + 4, size - 4);
  ConfigTable table;
  set(table, "corpus", file.path());
  set(table, "objective", std::string(masked ? "masked" : "causal"));
  set(table, "valid_fraction", double(data[0] >> 5) / 16);
  set(table, "test_fraction", double((data[0] >> 1) & 15) / 16);
  set(table, "evaluate_bytes", int64_t(data[3]));
  try {
    const auto task = make_task("text", table);
    Example example;
    const int64_t windows = task->count(Split::test, length, stride);
    int64_t targets = 0;
    for (int64_t i = 0; i < windows; ++i) {
      task->example({1, Split::test, length, uint64_t(i), stride}, example);
      require(int64_t(example.input.size()) == length);
      for (size_t k = 0; k < example.target.size(); ++k) {
        const int32_t target = example.target[k];
        require(target >= -1 && target < 256);
        if (!masked && target >= 0 && k + 1 < example.input.size())
          require(example.input[k + 1] == target);
        targets += target >= 0;
      }
    }
    if (windows > 0 && !masked) {
      // Every byte but the first is predicted once: P targets fit in one window of P, not P + 1.
      require(task->count(Split::test, targets, 0) == 1);
      require(task->count(Split::test, targets + 1, 0) == 0);
    }
    task->example({1, Split::train, length, 5, 0}, example);
  } catch (const UsageError&) {
  }
}

}  // namespace longshot::fuzz
