// none: numbers for three tokens X = [[1,0],[0,2],[1,-1]] with query = key = value = X and 1 /
// sqrt(2), made with separate double-precision code.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

Doubles attend(const Doubles& rows, bool causal) {
  EncodingBench bench("type = 'none'", {2, 1, 2, 1, causal, 0, 0});
  const SequenceContext sequence = bench.sequence(contiguous_positions(3));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  const Tensor x =
      bench.encoding->on_embeddings(bench.tensor(rows, {1, 3, 2}), sequence).reshape({1, 1, 3, 2});
  const auto [query, key] = bench.encoding->on_query_key(x, x, sequence, 0);
  const LogitBias bias = bench.encoding->on_logits(query, key, sequence, 0, 0);
  CHECK_FALSE(bias.table.defined());
  CHECK_FALSE(bias.dense.defined());
  CHECK_FALSE(bias.row_scale.defined());
  ops::AttentionOptions options;
  options.scale = 1 / std::sqrt(2.0);
  options.causal = causal;
  return ops::attention(query, key, x, options).to_doubles();
}

const Doubles kX = {1, 0, 0, 2, 1, -1};
const Doubles kPermuted = {1, -1, 1, 0, 0, 2};  // rows 2, 0, 1

}  // namespace

TEST_CASE("none: bidirectional attention permutes with its input") {
  check_values(attend(kX, false), {0.8022241853595719, -0.005560463398929516, 0.06844623228219558,
                                   1.8497214840569773, 0.9619206803587457, -0.5680988459239168});
  check_values(attend(kPermuted, false),
               {0.9619206803587458, -0.5680988459239169, 0.8022241853595719, -0.005560463398929516,
                0.06844623228219558, 1.8497214840569773});
}

TEST_CASE("none: a causal mask alone tells positions apart") {
  check_values(attend(kX, true), {1.0, 0.0, 0.055807219207169745, 1.8883855615856606,
                                  0.9619206803587457, -0.5680988459239168});
  const Doubles permuted = attend(kPermuted, true);
  // The permuted output would begin with 0.96192, -0.56810; the first token sees only itself.
  check_values({permuted[0], permuted[1]}, {1, -1});
}

TEST_CASE("none: no parameters, no hooks, no bound") {
  EncodingBench bench("type = 'none'");
  const EncodingTraits traits = bench.encoding->traits();
  CHECK_FALSE((traits.embeddings || traits.query_key || traits.logits || traits.causal_only));
  CHECK(traits.capacity == 0);
  CHECK_FALSE(traits.beyond.empty());
  CHECK(bench.store.parameter_count() == 0);
}
