// The program itself with a driver and a module that do as they are told: a run on the emulated
// device, and what is said and done where CUDA cannot be had.
#include "tests/experiments/program.h"

#include <cstdlib>
#include <regex>

#include "tests/catch.h"

using longshot_test::Folder;
using longshot_test::Outcome;

namespace {

// `settings`: variables of the environment, "NAME=value NAME=value".
Outcome run(const Folder& folder, const std::string& settings, const std::string& arguments) {
  folder.write("tiny.toml", longshot_test::tiny_config());
  return longshot_test::shell(
      fmt::format("LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH FAKE_CUDA_DEVICES=1 "
                  "LONGSHOT_CUDA_MODULE={} {} {} run {}/tiny.toml --threads 1 {}",
                  LONGSHOT_FAKE_DRIVER_FOLDER, LONGSHOT_EMULATED_MODULE, settings,
                  longshot_test::program_path(), folder.path(), arguments));
}
std::string checksum(const Outcome& outcome, const std::string& study) {
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  const auto runs = longshot_test::run_folders(study + "/tiny");
  REQUIRE(runs.size() == 1);
  const std::string summary = longshot::read_file(runs[0] + "/summary.json");
  std::smatch found;
  REQUIRE(
      std::regex_search(summary, found, std::regex("\"parameters_sha256\": *\"([0-9a-f]{64})\"")));
  return found[1];
}

}  // namespace

TEST_CASE("program: trains on the emulated device, recorded and eager to equal bits", "[program]") {
  const Folder folder;
  const Outcome recorded = run(folder, "", "--device cuda --out " + folder / "a");
  CHECK_THAT(recorded.all(), ContainsSubstring("cuda:0, emulated device"));
  CHECK_THAT(recorded.all(), !ContainsSubstring("TF32"));
  const std::string expected = checksum(recorded, folder / "a");
  const Outcome eager =
      run(folder, "", "--device cuda:0 device.capture=false --out " + folder / "b");
  CHECK(checksum(eager, folder / "b") == expected);
  const std::string why = "training steps run operation by operation: capture is switched off";
  CHECK_THAT(eager.all(), ContainsSubstring(why));
  CHECK_THAT(recorded.all(), !ContainsSubstring("operation by operation"));
  // The option reaches the matrix products: other bits.
  const Outcome tf32 = run(folder, "", "--device auto device.tf32=true --out " + folder / "c");
  CHECK_THAT(tf32.all(), ContainsSubstring("emulated device") && ContainsSubstring("TF32"));
  CHECK(checksum(tf32, folder / "c") != expected);
}

TEST_CASE("program: a device named and not to be had ends it, auto goes on with the CPU",
          "[program]") {
  struct Case {
    std::string settings, sentence;
  };
  const Case cases[] = {
      {"FAKE_CUDA_DEVICES=0", "the NVIDIA driver sees no CUDA device"},
      {"LONGSHOT_EMULATOR_DRIVER=12040",
       "the NVIDIA driver is too old: it offers CUDA 12.4, the module needs 13.0"},
      {"LONGSHOT_CUDA_MODULE=" LONGSHOT_FAKE_MODULE, "is of another version"},
      {"LONGSHOT_CUDA_MODULE=/no/such/module.so",
       "there is no CUDA module: /no/such/module.so does not exist"},
      {"LONGSHOT_EMULATOR_MEMORY_MB=1", "cuda: out of device memory: 16777216 bytes asked for"},
  };
  for (const Case& each : cases) {
    INFO(each.settings);
    const Folder folder;
    const Outcome named = run(folder, each.settings, "--device cuda --out " + folder / "a");
    CHECK(named.code == 2);
    CHECK_THAT(named.all(), ContainsSubstring("device \"cuda\" cannot be had: ") &&
                                ContainsSubstring(each.sentence));
    const Outcome any = run(folder, each.settings, "--device auto --out " + folder / "b");
    INFO(any.all());
    CHECK(any.code == 0);
    CHECK_THAT(any.all(), ContainsSubstring("on cpu: ") && ContainsSubstring("because ") &&
                              ContainsSubstring(each.sentence));
  }
}

TEST_CASE("program: a model too large for the device is a sentence", "[program]") {
  const Folder folder;
  const Outcome outcome = run(folder, "LONGSHOT_EMULATOR_MEMORY_MB=32",
                              "--device cuda model.dim=1024 model.ffn=4096 --out " + folder / "a");
  INFO(outcome.all());
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.all(), ContainsSubstring("cuda: out of device memory: "));
}
