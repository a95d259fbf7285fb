// attention: values by hand, every option against the composition, fully masked rows, public
// pitfalls.

#include <cmath>

#include "tests/support/compositions.h"
#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

struct Sizes {
  int64_t batch, heads, queries, keys, dim;
};

// Leaves in the order query, key, value, then the biases in use.
struct Problem {
  std::vector<Tensor> leaves;
  ops::AttentionOptions options;
};

struct Choice {
  bool causal = false, mask = false, row_scale = false, dropout = false;
  int table = 0;     // 0 none, 1 contiguous, 2 shared positions, 3 positions a batch
  int dense = 0;     // 0 none, 1 shared, 2 a batch
  int relative = 0;  // 0 none, else by distance (1, 2) or pair (3, 4), heads apart (2, 4) with bias
};

Problem make_problem(Context& context, const Sizes& s, const Choice& choice, int64_t offset) {
  Problem problem;
  problem.leaves = {random_leaf(context, {s.batch, s.heads, s.queries, s.dim}, 1),
                    random_leaf(context, {s.batch, s.heads, s.keys, s.dim}, 2),
                    random_leaf(context, {s.batch, s.heads, s.keys, s.dim}, 3)};
  ops::AttentionOptions& options = problem.options;
  options.scale = 1 / std::sqrt(double(s.dim));
  options.causal = choice.causal;
  options.query_offset = offset;
  if (choice.mask) {
    std::vector<int32_t> mask = random_integers(s.batch * s.keys, 4, 0, 1);
    for (int64_t j = 0; j < s.keys && s.batch > 1; ++j)
      mask[size_t((s.batch - 1) * s.keys + j)] = 0;  // the last sample is all padding
    options.key_mask = integers(context, mask, {s.batch, s.keys});
  }
  if (choice.row_scale) {
    options.row_scale = random_leaf(context, {s.batch, s.queries}, 5, 0.5, 2);
    options.row_scale.set_requires_gradient(false);
  }
  if (choice.table > 0) {
    int64_t reach = std::max(offset + s.queries, s.keys);
    if (choice.table > 1) {
      const int64_t sets = choice.table == 3 ? s.batch : 1;
      reach = 12;
      options.position_q =
          integers(context, random_integers(sets * s.queries, 6, 0, 11), {sets, s.queries});
      options.position_k =
          integers(context, random_integers(sets * s.keys, 7, 0, 11), {sets, s.keys});
    }
    options.bias_table = random_leaf(context, {s.heads, 2 * std::max<int64_t>(reach, 1) - 1}, 8);
    problem.leaves.push_back(options.bias_table);
  }
  if (choice.dense > 0) {
    options.bias_dense =
        random_leaf(context, {choice.dense == 2 ? s.batch : 1, s.heads, s.queries, s.keys}, 9);
    problem.leaves.push_back(options.bias_dense);
  }
  if (choice.relative > 0) {
    const int64_t groups = choice.relative % 2 == 0 ? s.heads : 1;
    const int64_t reach = std::max<int64_t>({1, offset + s.queries, s.keys}) + 1;
    options.relative.rows =
        random_leaf(context,
                    choice.relative <= 2 ? Shape{groups, 2 * reach - 1, s.dim}
                                         : Shape{groups, s.queries, s.keys, s.dim},
                    10);
    options.relative.scale = 0.7;
    problem.leaves.push_back(options.relative.rows);
    if (choice.relative % 2 == 0) {
      options.relative.bias = random_leaf(context, {s.heads, s.dim}, 11);
      problem.leaves.push_back(options.relative.bias);
    }
  }
  if (choice.dropout) options.dropout = {.p = 0.3f, .stream = 2, .state = context.step_state()};
  return problem;
}

void compare(Context& context, const Sizes& sizes, const Choice& choice, int64_t offset,
             bool differences) {
  INFO("batch " << sizes.batch << " heads " << sizes.heads << " queries " << sizes.queries
                << " keys " << sizes.keys << " dim " << sizes.dim << " offset " << offset
                << " causal " << choice.causal << " mask " << choice.mask << " row scale "
                << choice.row_scale << " dropout " << choice.dropout << " table " << choice.table
                << " dense " << choice.dense << " relative " << choice.relative);
  Problem problem = make_problem(context, sizes, choice, offset);
  std::vector<Tensor>& leaves = problem.leaves;
  const auto fused = [&] {
    return std::vector<Tensor>{ops::attention(leaves[0], leaves[1], leaves[2], problem.options)};
  };
  const auto composed = [&] {
    return std::vector<Tensor>{
        compositions::attention(leaves[0], leaves[1], leaves[2], problem.options)};
  };
  check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-10);
  if (differences) check_gradients(context, leaves, fused);
}

TEST_CASE("attention: two keys by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    // q . k = (0, ln 3) so p = (1/4, 3/4); out = (1/4) 4 + (3/4) 8 = 7
    const Tensor query = value(context, {std::log(3.0)}, {1, 1, 1, 1}, true);
    const Tensor key = value(context, {0, 1}, {1, 1, 2, 1}, true);
    const Tensor values = value(context, {4, 8}, {1, 1, 2, 1}, true);
    const Tensor out = ops::attention(query, key, values, {});
    CHECK(out.shape() == Shape({1, 1, 1}));
    check_values(out, {7}, 1e-12);
    // ds_j = p_j (v_j - out) = (-3/4, 3/4)
    context.tape().backward(out);
    check_gradient(values, {0.25, 0.75}, 1e-12);
    check_gradient(query, {0.75}, 1e-12);
    check_gradient(key, {-0.75 * std::log(3.0), 0.75 * std::log(3.0)}, 1e-12);
  });
}

TEST_CASE("attention: heads are merged as (B, T, H D)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    // One key a head: the output is that key's value, whatever the logits.
    const Tensor query = value(context, {1, 2, 3, 4}, {1, 2, 2, 1});
    const Tensor key = value(context, {1, 1}, {1, 2, 1, 1});
    check_values(ops::attention(query, key, value(context, {10, 20}, {1, 2, 1, 1}), {}),
                 {10, 20, 10, 20}, 1e-12);
  });
}

TEST_CASE("attention: every combination of options equals the composition") {
  on_every_device([](Context& context) {
    for (int bits = 0; bits < 16; ++bits)
      for (int table = 0; table < 4; ++table)
        for (int dense = 0; dense < 3; ++dense) {
          if (testing_cuda() && (bits + table + dense) % 4 != 0) continue;  // slow on the emulator
          const Choice choice{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
                              (bits & 8) != 0, table,           dense};
          compare(context, {2, 2, 3, 5, 3}, choice, 1, bits == 15 || bits == 0);
        }
  });
}

TEST_CASE("attention: odd shapes equal the composition") {
  const std::vector<Sizes> sizes = {{1, 1, 1, 1, 1},   {1, 1, 1, 7, 2},    {2, 3, 5, 1, 4},
                                    {1, 2, 0, 3, 2},   {1, 2, 3, 0, 2},    {0, 2, 3, 3, 2},
                                    {1, 1, 17, 17, 8}, {1, 2, 67, 131, 5}, {1, 1, 129, 130, 16},
                                    {2, 1, 33, 65, 32}};
  on_every_device([&](Context& context) {
    for (const Sizes& each : sizes) {
      const bool small = each.queries * each.keys < 30;
      compare(context, each, {}, 0, small);
      compare(context, each, {.causal = true, .table = 1}, 2, small);
      if (each.batch * each.queries * each.keys > 0) {
        compare(context, each, {.mask = true, .dropout = true, .table = 3, .dense = 1}, 0, small);
        compare(context, each, {.causal = true, .mask = true, .row_scale = true, .dense = 2}, 0,
                small);
      }
    }
  });
}

TEST_CASE("attention: relative keys equal the composition") {
  on_every_device([](Context& context) {
    for (int relative = 1; relative <= 4; ++relative) {
      compare(context, {2, 2, 3, 5, 3}, {.relative = relative}, 1, true);
      compare(context, {1, 2, 4, 4, 2}, {.causal = true, .mask = true, .relative = relative}, 0,
              true);
      compare(context, {3, 2, 3, 4, 2},
              {.row_scale = true, .dropout = true, .table = 1, .relative = relative}, 1, true);
      for (int dense = 1; dense <= 2; ++dense)
        compare(context, {2, 2, 3, 4, 2}, {.mask = true, .dense = dense, .relative = relative}, 0,
                true);
      for (const Sizes& each : {Sizes{1, 2, 0, 3, 2}, Sizes{1, 2, 3, 0, 2}, Sizes{0, 2, 3, 3, 2},
                                Sizes{2, 3, 17, 19, 8}, Sizes{1, 2, 67, 131, 5}})
        compare(context, each, {.relative = relative}, 0, false);
    }
  });
}

TEST_CASE("attention: relative keys that do not fit are refused") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = random_leaf(context, {1, 2, 4, 3}, 1);
    ops::AttentionOptions options;
    options.relative.bias = random_leaf(context, {2, 3}, 2);
    CHECK_THROWS_WITH(ops::attention(x, x, x, options), ContainsSubstring("no relative keys"));
    options.relative.rows = random_leaf(context, {2, 5, 3}, 3);
    CHECK_THROWS_WITH(ops::attention(x, x, x, options), ContainsSubstring("distances below 3"));
    options.relative.rows = random_leaf(context, {3, 7, 3}, 3);
    CHECK_THROWS_WITH(ops::attention(x, x, x, options), ContainsSubstring("(1 or 2, 2 reach - 1"));
    options.relative.rows = random_leaf(context, {2, 4, 3, 3}, 3);
    CHECK_THROWS_WITH(ops::attention(x, x, x, options), ContainsSubstring("(1 or 2, 4, 4, 3)"));
    options.relative.rows = random_leaf(context, {2, 7, 3}, 3);
    options.relative.bias = random_leaf(context, {1, 3}, 2);
    CHECK_THROWS_WITH(ops::attention(x, x, x, options), ContainsSubstring("bias (1, 3)"));
  });
}

TEST_CASE("attention: one tensor in several roles") {
  on_every_device([](Context& context) {
    std::vector<Tensor> leaves = {random_leaf(context, {2, 2, 3, 4}, 1)};
    check_gradients(context, leaves, [&] {
      return std::vector<Tensor>{ops::attention(leaves[0], leaves[0], leaves[0], {.scale = 0.5}),
                                 ops::attention(leaves[0], leaves[0], leaves[0], {.causal = true})};
    });
  });
}

TEST_CASE("attention: an all-padding sample gives 0 and leaves the others alone (B20)") {
  on_every_device([](Context& context) {
    const int64_t heads = 2, length = 3, dim = 4, each = heads * length * dim;
    std::vector<std::vector<double>> inputs;
    for (uint64_t i = 0; i < 3; ++i) inputs.push_back(random_values(2 * each, 20 + i));
    // Twice: with the second, fully masked sample, and without it.
    std::vector<std::vector<double>> outputs[2];
    for (int64_t batch = 2; batch >= 1; --batch) {
      const StepScope step(context);
      std::vector<Tensor> tensors;
      for (const std::vector<double>& input : inputs)
        tensors.push_back(value(context, {input.begin(), input.begin() + batch * each},
                                {batch, heads, length, dim}, true));
      ops::AttentionOptions options;
      options.key_mask =
          ints(context,
               batch == 2 ? std::vector<int32_t>{1, 1, 0, 0, 0, 0} : std::vector<int32_t>{1, 1, 0},
               {batch, length});
      const Tensor out = ops::attention(tensors[0], tensors[1], tensors[2], options);
      outputs[batch - 1].push_back(out.to_doubles());
      context.tape().backward(ops::sum(ops::square(out)));
      for (const Tensor& tensor : tensors)
        outputs[batch - 1].push_back(tensor.gradient_to_doubles());
    }
    for (size_t i = 0; i < 4; ++i) {
      std::vector<double> first(outputs[1][i].begin(), outputs[1][i].begin() + each);
      const std::vector<double> second(outputs[1][i].begin() + each, outputs[1][i].end());
      check_close(first, outputs[0][i], 1e-14, "the sample beside an all-padding one");
      check_close(second, std::vector<double>(size_t(each), 0.0), 0, "the all-padding sample");
    }
  });
}

TEST_CASE("attention: mask polarity (B21)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor q = value(context, random_values(4, 1), {1, 1, 2, 2});
    const Tensor k = value(context, random_values(4, 2), {1, 1, 2, 2});
    const Tensor v = value(context, {1, 10, 2, 20}, {1, 1, 2, 2});
    const std::vector<double> open = ops::attention(q, k, v, {}).to_doubles();
    ops::AttentionOptions all;
    all.key_mask = ints(context, {1, 1}, {1, 2});
    CHECK(ops::attention(q, k, v, all).to_doubles() == open);
    const std::vector<double> causal = ops::attention(q, k, v, {.causal = true}).to_doubles();
    check_close(std::vector<double>{causal[0], causal[1]}, std::vector<double>{1, 10}, 1e-12,
                "row 0 sees key 0 only");
    CHECK(causal[2] == open[2]);
  });
}

TEST_CASE("attention: padding lies along keys, and joins with the causal mask (B22)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const int64_t length = 4;
    const Tensor q = value(context, random_values(4, 1), {1, 1, length, 1});
    const Tensor k = value(context, random_values(4, 2), {1, 1, length, 1});
    ops::AttentionOptions options;
    options.causal = true;
    options.key_mask = ints(context, {1, 1, 0, 0}, {1, length});
    // Values are unit vectors, so that the output is the row of weights.
    std::vector<double> unit(16, 0.0);
    for (size_t i = 0; i < 4; ++i) unit[i * 5] = 1;
    std::vector<Tensor> columns;
    std::vector<double> weights(16);
    for (size_t j = 0; j < 4; ++j) {
      std::vector<double> one(4, 0.0);
      one[j] = 1;
      const std::vector<double> column =
          ops::attention(q, k, value(context, one, {1, 1, length, 1}), options).to_doubles();
      for (size_t i = 0; i < 4; ++i) weights[i * 4 + j] = column[i];
    }
    const std::vector<double> qs = q.to_doubles(), ks = k.to_doubles();
    for (size_t i = 0; i < 4; ++i) {
      const double first = std::exp(qs[i] * ks[0]);
      const double second = i >= 1 ? std::exp(qs[i] * ks[1]) : 0.0;
      const std::vector<double> row(weights.begin() + int64_t(i) * 4,
                                    weights.begin() + int64_t(i) * 4 + 4);
      check_close(row,
                  std::vector<double>{first / (first + second), second / (first + second), 0, 0},
                  1e-12, "weights");
    }
  });
}

TEST_CASE("attention: ALiBi bias for one query at the end of five keys (B16)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    // table[d] = -|d| / 2 for |d| < 5; query and keys 0, so p is softmax(-2, -1.5, -1, -0.5, 0)
    std::vector<double> table;
    for (int d = -4; d <= 4; ++d) table.push_back(-0.5 * std::abs(d));
    ops::AttentionOptions options;
    options.bias_table = value(context, table, {1, 9});
    options.query_offset = 4;
    const Tensor zero_q = value(context, {0}, {1, 1, 1, 1});
    const Tensor zero_k = value(context, {0, 0, 0, 0, 0}, {1, 1, 5, 1});
    double total = 0, expected = 0;
    for (int j = 0; j < 5; ++j) {
      const double weight = std::exp(-2 + 0.5 * j);
      total += weight;
      expected += weight * (j + 1);
    }
    check_values(
        ops::attention(zero_q, zero_k, value(context, {1, 2, 3, 4, 5}, {1, 1, 5, 1}), options),
        {expected / total}, 1e-12);
  });
}

}  // namespace
}  // namespace longshot::testing
