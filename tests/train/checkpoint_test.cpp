// What is read back is what was written: training states by name and shape, proven by a hash, of a
// known format; weights of other programs in their types.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/log.h"
#include "tests/train/small_run.h"
#include "train/sha256.h"
#include "train/stored_tensors.h"

using namespace longshot;
using namespace longshot::test;

namespace {

struct Rewritten {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The file again after `change`, with its hash as it was, or made anew.
void rewrite(const std::string& path, const std::function<void(Rewritten&)>& change, bool proven) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  Rewritten parts;
  parts.metadata = file.metadata();
  for (const SafetensorsEntry& entry : file.entries())
    parts.tensors.push_back({entry.name, entry.dtype, entry.shape, file.bytes(entry)});
  change(parts);
  if (proven)
    write_proven(path, parts.tensors, parts.metadata);
  else
    write_safetensors(path, parts.tensors, parts.metadata);
}

SafetensorsTensor& tensor_of(Rewritten& parts, const std::string& name) {
  for (SafetensorsTensor& tensor : parts.tensors)
    if (tensor.name == name) return tensor;
  throw Error("no tensor " + name);
}

// A run that failed after saving its first four steps.
Setup interrupted(const std::string& name) {
  Setup setup;
  setup.options.train.keep = "best";
  setup.options.train.evaluate_every = 2;
  setup.options.folder = fresh_folder(name);
  fail_after_checkpoint(setup);
  return setup;
}

std::string state_of(const Setup& setup) {
  return setup.options.folder + "/training_state.safetensors";
}

std::string resume_error(const Setup& setup) {
  Run run(setup);
  const std::vector<float> before = run.parameters();
  try {
    run.trainer->run();
  } catch (const UsageError& error) {
    CHECK(run.parameters() == before);  // a refused file changes nothing
    return error.what();
  }
  return "none";
}

// A float in the middle of the file's data becomes another.
void overwrite_a_float(const std::string& path) {
  std::string bytes = read_file(path);
  const float other = 0.123f;
  std::memcpy(bytes.data() + bytes.size() - 400, &other, sizeof other);
  write_file_atomically(path, bytes);
}

}  // namespace

// Issue 17.3: another order of declarations is another order in the flat buffers, not in the file.
TEST_CASE("a training state is read by name, whatever order it is in", "[train][checkpoint]") {
  Setup setup = interrupted("by-name");
  const SafetensorsFile file = SafetensorsFile::open(state_of(setup));
  CHECK(file.metadata().at("format") == "longshot training state 2");
  Run fresh(setup);
  for (const Parameter::Entry& entry : fresh.encoder->parameters().entries())
    for (const char* folder : {"parameters/", "first_moments/", "second_moments/", "best/"}) {
      INFO(folder << entry.name);
      const SafetensorsEntry* found = file.find(folder + entry.name);
      REQUIRE(found != nullptr);
      CHECK(found->shape == extents(entry.shape));
    }
  CHECK(file.entries().size() == 4 * fresh.encoder->parameters().entries().size());

  // An encoder of another order: its store declares the same names in reverse.
  Context& context = *fresh.context;
  ParameterStore reversed(context);
  const auto& entries = fresh.encoder->parameters().entries();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    reversed.declare(entry->name, entry->shape, entry->initializer, entry->decay);
  reversed.place(1);
  Optimizer optimizer(reversed, setup.options.train);
  load_training_state(state_of(setup), reversed, optimizer, setup.options.identity);
  for (const Parameter::Entry& entry : reversed.entries()) {
    INFO(entry.name);
    const auto stored = file.bytes(*file.find("parameters/" + entry.name));
    const std::vector<std::byte> loaded = bytes_of(entry.tensor);
    CHECK(std::equal(loaded.begin(), loaded.end(), stored.begin(), stored.end()));
  }
}

TEST_CASE("a training state with other tensors is refused by name", "[train][checkpoint]") {
  const Setup setup = interrupted("tensors");
  const std::string good = read_file(state_of(setup));
  const auto error_after = [&](const std::function<void(Rewritten&)>& change) {
    write_file_atomically(state_of(setup), good);
    rewrite(state_of(setup), change, true);
    return resume_error(setup);
  };
  const std::string name = "second_moments/block.0.attention.qkv.weight";
  CHECK_THAT(error_after([&](Rewritten& parts) {
               std::erase_if(parts.tensors, [&](const auto& t) { return t.name == name; });
             }),
             ContainsSubstring(state_of(setup) + ": tensor \"" + name + "\" is missing"));
  CHECK_THAT(error_after([&](Rewritten& parts) { tensor_of(parts, name).name += "s"; }),
             ContainsSubstring("tensor \"" + name + "s\" does not belong to this run's model"));
  CHECK_THAT(error_after([&](Rewritten& parts) {
               tensor_of(parts, name).shape = {16, 48};
             }),
             ContainsSubstring("\"" + name + "\" has shape (16, 48), this model needs (48, 16)"));
  CHECK_THAT(error_after([&](Rewritten& parts) {
               parts.metadata["format"] = "longshot training state 3";
               parts.metadata["longshot_version"] = "9.8.7";
             }),
             ContainsSubstring("\"longshot training state 3\" was written by a later version, "
                               "longshot 9.8.7"));
  CHECK_THAT(error_after([&](Rewritten& parts) { parts.metadata.erase("state"); }),
             ContainsSubstring("not a training state"));
  CHECK(error_after([](Rewritten&) {}) == "none");
}

// R1.5
TEST_CASE("numbers changed in a training state or a checkpoint are found", "[train][checkpoint]") {
  const Setup setup = interrupted("changed");
  const std::string checkpoint = setup.options.folder + "/checkpoint.safetensors";
  Run reader(setup);
  CHECK_NOTHROW(load_parameters(checkpoint, *reader.encoder));
  overwrite_a_float(checkpoint);
  CHECK_THROWS_WITH(
      load_parameters(checkpoint, *reader.encoder),
      ContainsSubstring(checkpoint + ": its contents were changed after it was written"));
  CHECK_THROWS_WITH(read_checkpoint_model(checkpoint), ContainsSubstring("were changed"));

  const std::string good = read_file(state_of(setup));
  overwrite_a_float(state_of(setup));
  CHECK_THAT(resume_error(setup), ContainsSubstring("were changed after it was written") &&
                                      ContainsSubstring("--retry-failed"));
  write_file_atomically(state_of(setup), good);
  rewrite(
      state_of(setup),
      [](Rewritten& parts) {
        auto state = nlohmann::json::parse(parts.metadata["state"]);
        state["step"] = 2;
        parts.metadata["state"] = state.dump();
      },
      false);
  CHECK_THAT(resume_error(setup), ContainsSubstring("were changed after it was written"));
  write_file_atomically(state_of(setup), good);
  rewrite(
      state_of(setup), [](Rewritten& parts) { parts.metadata.erase("sha256"); }, false);
  CHECK_THAT(resume_error(setup), ContainsSubstring("SHA-256 of its contents is gone"));
}

// The sum as docs/formats.md states it, over a file small enough to write its text down.
TEST_CASE("the hash of a file is over metadata and tensors by name", "[train][checkpoint]") {
  const std::string path = fresh_folder("hash") + "/h.safetensors";
  const float two[] = {1.5f, -2.0f};
  const float one[] = {3.0f};
  write_proven(path,
               {{"b", "F32", {2, 1}, std::as_bytes(std::span(two))},
                {"a", "F32", {}, std::as_bytes(std::span(one))}},
               {{"z", "last"}, {"k", "v"}});
  std::string text = "k\nv\nz\nlast\na\nF32\n\n";
  text.append(reinterpret_cast<const char*>(one), sizeof one);
  text += "b\nF32\n2,1\n";
  text.append(reinterpret_cast<const char*>(two), sizeof two);
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  const SafetensorsFile file = SafetensorsFile::open(path);
  CHECK(file.metadata().at("sha256") == hash.hex());
  CHECK_NOTHROW(check_contents(file, ""));
}

// Yesterday's states go on: flat arrays in the order of declarations, no hash, one loss for both.
TEST_CASE("a training state of format 1 goes on to the same bits", "[train][checkpoint]") {
  Setup whole;
  whole.options.train.keep = "best";
  whole.options.train.evaluate_every = 2;
  const std::vector<float> expected = trained(whole);
  const Setup setup = interrupted("format-1");
  Run run(setup);
  const ParameterStore& store = run.encoder->parameters();
  Optimizer& optimizer = run.trainer->optimizer();
  load_training_state(state_of(setup), run.encoder->parameters(), optimizer,
                      setup.options.identity);
  const std::vector<std::byte> parts[] = {
      bytes_of(store.parameters()), bytes_of(store.first_moments()),
      bytes_of(store.second_moments()), bytes_of(optimizer.best())};
  rewrite(
      state_of(setup),
      [&](Rewritten& file) {
        const int64_t n = store.elements();
        file.tensors = {{"parameters", "F32", {n}, parts[0]},
                        {"first_moments", "F32", {n}, parts[1]},
                        {"second_moments", "F32", {n}, parts[2]},
                        {"best_parameters", "F32", {n}, parts[3]}};
        file.metadata["format"] = "longshot training state 1";
        file.metadata.erase("sha256");
        file.metadata.erase("longshot_version");
        auto state = nlohmann::json::parse(file.metadata["state"]);
        for (const char* later : {"patience_loss", "updates", "updated_step"}) state.erase(later);
        file.metadata["state"] = state.dump();
      },
      false);
  Run rest(setup);
  REQUIRE(rest.trainer->run().outcome == Outcome::done);
  CHECK(rest.parameters() == expected);
}

// R2.2: the log is a record of training, not a part of it.
TEST_CASE("training goes on from its state when its logs are shortened or gone",
          "[train][checkpoint]") {
  Setup whole;
  whole.options.train.keep = "best";
  whole.options.train.evaluate_every = 2;
  const std::vector<float> expected = trained(whole);
  for (const int64_t left : {-1, 0, 10}) {
    INFO(left);
    const Setup setup = interrupted("logs");
    for (const char* name : {"/metrics.jsonl", "/timing.jsonl"}) {
      const std::string path = setup.options.folder + name;
      if (left < 0)
        std::filesystem::remove(path);
      else if (int64_t(std::filesystem::file_size(path)) > left)
        std::filesystem::resize_file(path, uintmax_t(left));
    }
    Run rest(setup);
    REQUIRE(rest.trainer->run().outcome == Outcome::done);
    CHECK(rest.parameters() == expected);
    // Whole lines only, and the state knows their length.
    const std::string metrics = read_file(setup.options.folder + "/metrics.jsonl");
    CHECK_THAT(metrics, ContainsSubstring("\"step\": 12"));
    CHECK(metrics.front() == '{');
    CHECK(rest.trainer->run().outcome == Outcome::done);
  }
}

// R3.5. Bytes by hand: binary16 has 5 bits of exponent and 10 of fraction, bfloat16 is the upper
// half of a float.
TEST_CASE("weights in halves and doubles are converted", "[train][checkpoint]") {
  const std::string path = fresh_folder("types") + "/w.safetensors";
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x8000, 0x7c00};
  const float half_values[] = {1, -2, 0x1p-24f, 1023 * 0x1p-24f, 0x1p-14f, 65504, -0.0f, INFINITY};
  const uint16_t bfloats[] = {0x3f80, 0xc000, 0x4049, 0x0001};
  const float bfloat_values[] = {1, -2, 3.140625f, 0x1p-133f};
  // 1 + 2^-24 lies half way between two floats and goes to the even one, 1 + 2^-23 is a float.
  const double doubles[] = {0.5, 1 + 0x1p-24, 1 + 0x1p-23, 1e300};
  const float double_values[] = {0.5f, 1, 1 + 0x1p-23f, INFINITY};
  const int8_t bytes[] = {1};
  write_safetensors(path,
                    {{"half", "F16", {2, 4}, std::as_bytes(std::span(halves))},
                     {"bfloat", "BF16", {4}, std::as_bytes(std::span(bfloats))},
                     {"double", "F64", {4}, std::as_bytes(std::span(doubles))},
                     {"byte", "I8", {1}, std::as_bytes(std::span(bytes))}},
                    {});
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto check = [&](const char* name, std::span<const float> expected) {
    const std::vector<std::byte> got = bytes_as(file, *file.find(name), DType::f32);
    REQUIRE(got.size() == expected.size_bytes());
    for (size_t i = 0; i < expected.size(); ++i) {
      float value;
      std::memcpy(&value, got.data() + 4 * i, 4);
      INFO(name << " " << i);
      CHECK(std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(expected[i]));
    }
  };
  check("half", half_values);
  check("bfloat", bfloat_values);
  check("double", double_values);
  CHECK_THROWS_WITH(bytes_as(file, *file.find("byte"), DType::f32),
                    ContainsSubstring("tensor \"byte\" holds I8, this model needs F32"));
}

TEST_CASE("a model's weights may come in halves from another program", "[train][checkpoint]") {
  Setup setup;
  Run source(setup);
  const std::string path = fresh_folder("halves") + "/w.safetensors";
  std::vector<std::vector<uint16_t>> storage;
  std::vector<SafetensorsTensor> tensors;
  for (const Parameter::Entry& entry : source.encoder->parameters().entries()) {
    std::vector<uint16_t> values;
    for (const float value : entry.tensor.to_host<float>())
      values.push_back(uint16_t(std::bit_cast<uint32_t>(value) >> 16));  // cut off: a BF16
    storage.push_back(std::move(values));
    tensors.push_back(
        {entry.name, "BF16", extents(entry.shape), std::as_bytes(std::span(storage.back()))});
  }
  write_safetensors(path, tensors, {});
  Run target(setup);
  load_parameters(path, *target.encoder);
  for (const Parameter::Entry& entry : target.encoder->parameters().entries()) {
    const std::vector<float> got = entry.tensor.to_host<float>();
    const std::vector<float> full =
        source.encoder->parameters().find(entry.name)->tensor.to_host<float>();
    for (size_t i = 0; i < got.size(); ++i)
      if (std::bit_cast<uint32_t>(got[i]) != (std::bit_cast<uint32_t>(full[i]) & 0xffff0000u))
        FAIL(entry.name << " " << i << ": " << got[i]);
  }
}
