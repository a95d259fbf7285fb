// Identities that stand in finished runs: no build may change one while its trained bits stay the
// same. tests/experiments/identities.txt was recorded from the program as it was when identities
// were first promised to last; a row of it is
//
//   config key=value ...            of the repository, with what is laid over it
//     cells count sha256            of all identities in order, one a line
//     identity folder               of some cells
//
// A row changes only with its config, or with bits_version_of (experiments/sweep.h).
#include <sstream>

#include "core/files.h"
#include "experiments/identity_keys.h"
#include "experiments/load.h"
#include "experiments/sweep.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"
#include "train/sha256.h"

using namespace longshot;

namespace {

// A config of text names no file of its own: this one, wherever it lies.
std::string corpus() {
  static const longshot_test::Folder folder;
  static const std::string path = [] {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += "a line of text\n";
    return folder.write("corpus.txt", text);
  }();
  return path;
}

std::string block_of(const std::string& row) {
  std::istringstream words(row);
  std::string config, word;
  words >> config;
  const std::string path = std::string(LONGSHOT_SOURCE_DIR) + "/" + config;
  std::vector<std::string> overrides;
  while (words >> word) overrides.push_back(word);
  if (read_file(path).find("type = \"text\"") != std::string::npos)
    overrides.push_back("task.corpus=" + corpus());
  const std::vector<Cell> cells = expand_sweep(load_config({path}, overrides), "cpu");
  std::string all;
  for (const Cell& cell : cells) all += cell.identity + "\n";
  Sha256 hash;
  hash.add(std::as_bytes(std::span(all)));
  std::string text = row + "\n" + fmt::format("  cells {} {}\n", cells.size(), hash.hex());
  const size_t step = std::max<size_t>(1, cells.size() / 4);
  for (size_t i = 0; i < cells.size(); i += step)
    text += "  " + cells[i].identity + " " + cells[i].folder + "\n";
  return text;
}

}  // namespace

TEST_CASE("identities are those recorded before", "[experiments]") {
  std::istringstream file(read_file(LONGSHOT_SOURCE_DIR "/tests/experiments/identities.txt"));
  std::vector<std::pair<std::string, std::string>> rows;  // the row, the block it begins
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() != ' ') rows.emplace_back(line, "");
    REQUIRE_FALSE(rows.empty());
    rows.back().second += line + "\n";
  }
  CHECK(rows.size() > 70);
  for (const auto& [row, recorded] : rows) CHECK(block_of(row) == recorded);
}

namespace {

// Alibi as a later version may have it: with one more key, declared first.
struct LaterAlibi {
  double bend = 0.5;
  std::string variant = "symmetric";
  void fields(FieldVisitor& visit) {
    visit.field("bend", bend, "a key to come");
    visit.field("variant", variant, "as today");
  }
};

Schema later_schema() {
  SectionTypes encodings = Schema::installed().encoding();
  for (SectionType& type : encodings.types) {
    if (type.name != "alibi") continue;
    type.describe = [] { return describe_options<LaterAlibi>(); };
    type.resolve = [](const ConfigTable& table, const ReadContext& context) {
      LaterAlibi options;
      read_options(table, context, options);
      ConfigTable resolved;
      write_options(resolved, options);
      return resolved;
    };
  }
  return Schema(Schema::installed().task(), encodings, Schema::installed().positions());
}

std::string identity_under(const Schema& schema, std::vector<std::string> overrides) {
  const std::string path = LONGSHOT_SOURCE_DIR "/experiments/configs/encodings/alibi.toml";
  return expand_sweep(load_config({path}, overrides, schema), "cpu", schema).at(0).identity;
}

}  // namespace

TEST_CASE("a key to come, at its default, leaves identities as they are", "[experiments]") {
  const Schema later = later_schema();
  const std::string today = identity_under(Schema::installed(), {});
  CHECK(identity_under(later, {}) == today);
  CHECK(identity_under(later, {"encoding.bend=0.5"}) == today);
  CHECK(identity_under(later, {"encoding.bend=0.25"}) != today);
  CHECK(identity_under(later, {"encoding.variant=ruoss"}) ==
        identity_under(Schema::installed(), {"encoding.variant=ruoss"}));
}

TEST_CASE("a section to come, and keys of the plain ones, leave identities as they are",
          "[experiments]") {
  const RunConfig config =
      load_run(LONGSHOT_SOURCE_DIR "/experiments/configs/encodings/alibi.toml");
  const Schema& schema = Schema::installed();
  const ConfigTable today = trained_part(config, "cpu");
  // The identity is a hash of exactly what it was a hash of.
  CHECK(lasting_part(today, schema).to_toml() == today.to_toml());
  // Another order of declarations is the same text.
  ConfigTable turned;
  for (auto entry = today.entries().rbegin(); entry != today.entries().rend(); ++entry) {
    if (entry->first == "model") {
      ConfigTable model;
      const auto& keys = entry->second.as_table().entries();
      for (auto key = keys.rbegin(); key != keys.rend(); ++key) model.set(key->first, key->second);
      turned.set("model", ConfigValue::table(std::move(model)));
    } else {
      turned.set(entry->first, entry->second);
    }
  }
  CHECK(lasting_part(turned, schema).find("model")->to_toml() == today.find("model")->to_toml());
  CHECK(lasting_part(turned, schema).to_toml() == today.to_toml());
}

TEST_CASE("the bits version stands in identities from its second on", "[experiments]") {
  const RunConfig config =
      load_run(LONGSHOT_SOURCE_DIR "/experiments/configs/encodings/alibi.toml");
  const auto of = [&](int64_t version) {
    return identity_of(config, "cpu", Schema::installed(), version);
  };
  CHECK(bits_version_of(config) == 1);
  CHECK(of(1) == identity_of(config, "cpu"));
  CHECK(of(2) != of(1));
  CHECK(of(3) != of(2));
  // Where the parameters that are kept changed, and nowhere else.
  const auto version = [](const std::vector<std::string>& overrides) {
    return bits_version_of(
        load_run(LONGSHOT_SOURCE_DIR "/experiments/configs/encodings/alibi.toml", overrides));
  };
  CHECK(version({"train.keep=best"}) == 1);
  CHECK(version({"train.keep=best", "train.min_delta=0.1"}) == 2);
  CHECK(version({"train.patience=3", "train.min_delta=0.1"}) == 1);
  CHECK(version({"task.type=jsonl"}) == 1);
  CHECK(version({"task.type=jsonl", "train.patience=3"}) == 2);
  CHECK(version({"task.type=jsonl", "train.keep=best"}) == 2);
  CHECK(version({"task.type=synthetic_text", "train.keep=best"}) == 2);
}
