// The checked backend: a planted fault is named, and every registered encoding's training step
// agrees between the CPU and CUDA, operation by operation.
#include "tests/cuda/devices.h"
#include "tests/cuda/small_training.h"
#include "tests/nn/encodings/conformance_support.h"
#include "tests/support/checked_backend.h"

using namespace longshot;
using longshot::test::cpu_device;
using longshot::test::cuda_device;
using longshot::test::SmallTraining;
using longshot::test::TrainingCase;
using longshot::testing::CheckedBackend;

namespace {

// The CPU with one operation a little wrong: its first result is a thousandth too large.
class FaultyBackend final : public longshot::testing::EveryMethod<FaultyBackend> {
 public:
  explicit FaultyBackend(std::string fault) : fault_(std::move(fault)) {}
  const char* name() const override { return "faulty"; }
  std::string description() const override { return name(); }
  bool supports(DType type) const override { return cpu_device().supports(type); }
  bool host_accessible() const override { return true; }
  void* allocate(size_t bytes) override { return cpu_device().allocate(bytes); }
  void release(void* pointer, size_t bytes) override { cpu_device().release(pointer, bytes); }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    cpu_device().copy_to_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    cpu_device().copy_to_host(host, device, bytes);
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    cpu_device().copy_on_device(to, from, bytes);
  }
  void fill_zero(void* device, size_t bytes) override { cpu_device().fill_zero(device, bytes); }
  void synchronize() override {}

  template <class Args>
  void call(const char* name, void (Backend::*method)(const Args&), const Args& args) {
    (cpu_device().*method)(args);
    if (name == fault_) *static_cast<float*>(first_output(args)) += 1e-3f;
  }

 private:
  template <class Args>
  static void* first_output(const Args& args) {
    if constexpr (requires { args.c; })
      return args.c;
    else if constexpr (requires { args.dquery; })
      return args.dquery;
    else if constexpr (requires { args.dlogits; })
      return args.dlogits;
    else if constexpr (requires { args.dtable; })
      return args.dtable;
    else if constexpr (requires { args.loss; })
      return args.loss;
    else if constexpr (requires {
                         args.update;
                         args.max_norm;
                       })
      return &args.update->scale;
    else if constexpr (requires { args.parameter; })
      return args.parameter;
    else if constexpr (requires { args.dx; })
      return args.dx;
    else if constexpr (requires { args.y; })
      return args.y;
    else if constexpr (requires { args.out; })
      return args.out;
    else
      return args.part[0];
  }
  std::string fault_;
};

std::string message_of(CheckedBackend& checked, const TrainingCase& options) {
  try {
    SmallTraining training(checked, options);
    training.run(0, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("checked backend: names the planted fault, its shapes and the error", "[checked]") {
  TrainingCase options;
  options.encoding = "type = 'rope'";
  const std::pair<std::string, std::string> fault = GENERATE(
      std::pair<std::string, std::string>{"gemm", " x 8 and 8 x "},
      std::pair<std::string, std::string>{"embedding", "table "},
      std::pair<std::string, std::string>{"embedding_backward", "table "},
      std::pair<std::string, std::string>{"rotate", "(3, 2, "},
      std::pair<std::string, std::string>{"attention", "batch 3, heads 2, queries "},
      std::pair<std::string, std::string>{"attention_backward", "batch 3, heads 2, queries "},
      std::pair<std::string, std::string>{"norm", " x 8"},
      std::pair<std::string, std::string>{"norm_backward", " x 8"},
      std::pair<std::string, std::string>{"cross_entropy", " x "},
      std::pair<std::string, std::string>{"cross_entropy_backward", " x "},
      std::pair<std::string, std::string>{"clip", " elements"},
      std::pair<std::string, std::string>{"adam", " elements"});
  FaultyBackend faulty(fault.first);
  CheckedBackend checked(cpu_device(), faulty);
  const std::string message = message_of(checked, options);
  CHECK_THAT(message, ContainsSubstring(", " + fault.first + " (") &&
                          ContainsSubstring("is the first to disagree") &&
                          ContainsSubstring(fault.second) && ContainsSubstring("off by "));
}

TEST_CASE("checked backend: a backend agrees with itself to the bit", "[checked]") {
  FaultyBackend sound("none");
  CheckedBackend checked(cpu_device(), sound);
  CHECK(message_of(checked, TrainingCase()) == "");
  CHECK(checked.operations() > 30);
  CHECK(checked.largest_error() == 0);
}

TEST_CASE("checked backend: every encoding's training step, CPU against CUDA", "[checked]") {
  bool causal = false;
  for (const testing::EncodingConfig& each : testing::encoding_configs()) {
    causal =
        each.refused(!causal) ? causal : !causal;  // in turn, where the encoding leaves the choice
    TrainingCase options;
    options.encoding = each.toml;
    options.model.causal = causal;
    options.model.dropout = 0.1;
    options.model.norm = causal ? "pre" : "post";
    options.model.activation = causal ? "gelu" : "relu";
    options.train.lengths.draw = causal ? "sequence" : "batch";
    // Encodings of few positions get no drawn ones.
    const bool bounded = each.toml.find("capacity") != std::string::npos;
    if (!bounded && !causal) options.positions = "type = 'randomized'\nmax = 12\ndraw = 'sequence'";
    INFO(each.toml << (causal ? " causal" : " bidirectional"));
    CheckedBackend checked(cpu_device(), cuda_device());
    CHECK(message_of(checked, options) == "");
    CHECK(checked.operations() > 30);
  }
}
