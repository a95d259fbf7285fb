// Accumulated micro-batches are the large batch (pitfall case B24), with everything that is drawn:
// dropout on activations and on attention weights, positions for a batch and for each sequence,
// masked tokens; without padding, and with micro-batches whose own rows are shorter than the
// step's longest.
#include <algorithm>
#include <utility>

#include "core/ops.h"
#include "data/batcher.h"
#include "nn/dropout.h"
#include "tests/data/temporary_file.h"
#include "tests/train/small_run.h"

using namespace longshot;
using namespace longshot::test;

namespace {

constexpr int64_t kRows = 12;

struct Case {
  std::string task, task_options, draw, positions, encoding = "sinusoidal";
};

std::vector<Case> cases(const TemporaryFile& lines, const TemporaryFile& text) {
  const std::string randomized = "type = \"randomized\"\nmax = 64\n";
  const std::string own =
      fmt::format("train = \"{0}\"\ntest = \"{0}\"\nvalid_fraction = 0\ntarget = \"placeholders\"",
                  lines.path());
  return {
      {"reverse_string", "", "batch", randomized},
      {"reverse_string", "", "sequence", randomized},
      {"reverse_string", "", "sequence", randomized + "draw = \"sequence\"\nper_layer = true"},
      {"reverse_string", "", "sequence", randomized + "relative = \"distances\"", "transformer_xl"},
      {"reverse_string", "", "sequence", "type = \"shifted\"", "rope"},
      {"even_pairs", "", "sequence", "type = \"contiguous\"", "shaw"},
      {"jsonl", own, "batch", "type = \"contiguous\"", "t5"},
      {"text", fmt::format("corpus = \"{}\"\nobjective = \"masked\"", text.path()), "sequence",
       "type = \"contiguous\"", "alibi"},
  };
}

TemporaryFile make_lines() {
  return TemporaryFile(
      "{\"input\": [1, 2, 3], \"target\": [0]}\n{\"input\": [3, 2, 1], \"target\": [1, 0]}\n"
      "{\"input\": [2, 2, 3], \"target\": [0, 0, 1]}\n"
      "{\"input\": [1, 1, 3], \"target\": [1, 1, 1, 0, 1, 0]}\n");
}
TemporaryFile make_text() {
  std::string bytes;
  for (int i = 0; i < 400; ++i) bytes += char('a' + i * i % 23);
  return TemporaryFile(bytes);
}

Setup large_batch(const Case& c) {
  Setup setup;
  setup.task = c.task;
  setup.task_options = c.task_options;
  setup.encoding = "type = \"" + c.encoding + "\"";
  setup.positions = c.positions;
  setup.options.train.lengths.draw = c.draw;
  setup.options.train.batch = kRows;
  setup.options.train.steps = 3;
  setup.model.dropout = 0.2;
  setup.model.attention_dropout = 0.2;
  return setup;
}

}  // namespace

namespace {

// The parameters after training, in double.
std::vector<double> parameters_after(const Setup& setup) {
  Run run(setup);
  REQUIRE(run.trainer->run().outcome == Outcome::done);
  return run.encoder->parameters().parameters().to_doubles();
}

void check_accumulation(const Setup& large, int64_t micro, double margin, double epsilon) {
  Setup small = large;
  small.options.train.batch = kRows / micro;
  small.options.train.accumulate = micro;
  const std::vector<double> a = parameters_after(large), b = parameters_after(small);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(micro << " micro-batches, parameter " << i);
    REQUIRE(a[i] == Approx(b[i]).margin(margin).epsilon(epsilon));
  }
}

}  // namespace

TEST_CASE("accumulated micro-batches equal the large batch (B24)", "[train]") {
  const TemporaryFile lines = make_lines(), text = make_text();
  for (const Case& c : cases(lines, text)) {
    INFO(c.task << ", draw = " << c.draw << ", " << c.encoding << ", " << c.positions);
    Setup setup = large_batch(c);
    setup.dtype = DType::f64;
    check_accumulation(setup, 3, 1e-12, 0);
    check_accumulation(setup, 12, 1e-12, 0);
    // In f32 Adam's division makes small gradients' rounding large: 1e-5 for Transformer-XL, with
    // and without dropout.
    setup.dtype = DType::f32;
    if (c.encoding != "transformer_xl") check_accumulation(setup, 3, 2e-6, 1e-4);
  }
}

// The masks themselves, to the bit. Dropout of ones shows the mask of activations. Attention of
// equal logits over values that are the unit vectors gives the dropped weights.
TEST_CASE("a micro-batch has the large batch's dropout masks", "[train]") {
  const TemporaryFile lines = make_lines(), text = make_text();
  for (const Case& c : cases(lines, text)) {
    INFO(c.task << ", draw = " << c.draw);
    const Setup setup = large_batch(c);
    const auto task = make_task(c.task, parse_toml(c.task_options, "task"));
    const LengthOptions lengths = setup.options.train.lengths.resolve(3, *task);
    Batcher batcher(*task);
    Context context(testing::backend_for(DType::f32));
    constexpr int64_t kDim = 5, kHeads = 2;
    constexpr double kRate = 0.4;
    const auto masks = [&](const Batch& batch, int64_t first_row) {
      const StepScope scope(context);
      const NoRecordingScope off(context);
      context.set_step_state({.seed = 9, .step = 2, .training = 1, .sample_offset = first_row});
      const int64_t rows = batch.rows, n = batch.length;
      const std::vector<double> ones(size_t(rows * n * kDim), 1.0);
      const Tensor activations =
          ops::dropout(context.from_doubles(ones, {rows, n, kDim}),
                       dropout_at(context, kRate, true, 1, DropoutPlace::ffn_output, n * kDim));
      std::vector<double> units(size_t(rows * kHeads * n * n), 0.0);
      for (size_t i = 0; i < size_t(rows * kHeads * n); ++i)
        units[i * size_t(n) + i % size_t(n)] = 1.0;
      const Tensor value = context.from_doubles(units, {rows, kHeads, n, n});
      const Tensor zeros =
          context.from_doubles(std::vector<double>(units.size(), 0.0), {rows, kHeads, n, n});
      ops::AttentionOptions options;
      options.dropout =
          dropout_at(context, kRate, true, 1, DropoutPlace::attention_weights, kHeads * n * n);
      const Tensor weights = ops::attention(zeros, zeros, value, options);
      return std::pair(activations.to_host<float>(), weights.to_host<float>());
    };
    Batch whole, part;
    for (uint64_t step = 0; step < 3; ++step) {
      batcher.training(5, step, lengths, kRows, 0, kRows, whole);
      const auto [activations, weights] = masks(whole, 0);
      const auto kept =
          std::count_if(weights.begin(), weights.end(), [](float w) { return w > 0; });
      CHECK(kept > 0);
      CHECK(kept < int64_t(weights.size()));
      for (int64_t first = 0; first < kRows; first += 4) {
        batcher.training(5, step, lengths, kRows, first, 4, part);
        const auto [some, some_weights] = masks(part, first);
        const auto rows_of = [&](const std::vector<float>& all) {
          const auto width = std::ptrdiff_t(all.size()) / kRows;
          return std::vector(all.begin() + first * width, all.begin() + (first + 4) * width);
        };
        REQUIRE(some == rows_of(activations));
        REQUIRE(some_weights == rows_of(weights));
      }
    }
  }
}
