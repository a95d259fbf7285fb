// Wrong use of operations: errors open with the operation's name and show the shapes.

#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

// A context in f64 and a few tensors of common shapes.
struct Bench {
  Context context{reference_backend(), guarded(DType::f64)};
  StepScope step{context};
  Tensor of(const Shape& shape) {
    return value(context, std::vector<double>(size_t(shape.elements()), 0.5), shape);
  }
  Tensor ids(const Shape& shape) {
    return ints(context, std::vector<int32_t>(size_t(shape.elements()), 0), shape);
  }
};

// `call` must throw an Error whose message begins with the operation's name and holds all of
// `parts`.
template <class Call>
void rejects(const Call& call, const std::string& name,
             const std::vector<std::string>& parts = {}) {
  std::string message;
  try {
    call();
    FAIL_CHECK(name << ": nothing was thrown");
    return;
  } catch (const Error& error) {
    message = error.what();
  }
  INFO(message);
  CHECK(message.rfind(name + ":", 0) == 0);
  for (const std::string& part : parts) {
    INFO("must say " << part);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("misuse: shapes") {
  Bench b;
  rejects(
      [&] {
        return ops::matmul(b.of({2, 3}), b.of({4, 5}));
      },
      "matmul", {"(2, 3)", "(4, 5)", "inner"});
  rejects([&] { return ops::matmul(b.of({3}), b.of({3, 5})); }, "matmul", {"(3)", "(3, 5)"});
  rejects([&] { return ops::matmul(b.of({2, 2, 3}), b.of({3, 3, 4})); }, "matmul", {"leading"});
  rejects([&] { return ops::outer(b.of({2, 1}), b.of({3})); }, "outer", {"(2, 1)", "(3)"});
  rejects(
      [&] {
        return ops::linear(b.of({2, 3}), b.of({3, 5}), {});
      },
      "linear", {"(2, 3)", "(3, 5)"});
  rejects(
      [&] {
        return ops::linear(b.of({2, 3}), b.of({5, 3}), b.of({4}));
      },
      "linear", {"(5, 3)", "(4)"});
  rejects(
      [&] {
        return ops::linear_heads(b.of({2, 3}), b.of({6, 3}), {}, 3, 2);
      },
      "linear_heads", {"(2, 3)"});
  rejects(
      [&] {
        return ops::linear_heads(b.of({1, 2, 3}), b.of({8, 3}), {}, 3, 2);
      },
      "linear_heads", {"(8, 3)"});
  rejects(
      [&] {
        return ops::linear_heads(b.of({1, 2, 3}), b.of({8, 3}), {}, 4, 2);
      },
      "linear_heads", {"4 parts"});
  rejects([&] { return ops::add(b.of({2, 3}), b.of({2})); }, "add", {"(2, 3)", "(2)"});
  rejects([&] { return ops::add(b.of({3}), b.of({2, 3})); }, "add", {"(3)", "(2, 3)"});
  rejects([&] { return ops::mul(b.of({2, 3}), b.of({1, 3})); }, "mul", {"(2, 3)", "(1, 3)"});
  rejects([&] { return ops::sub(b.of({2}), b.of({3})); }, "sub", {"(2)", "(3)"});
  rejects(
      [&] {
        return ops::scale_rows(b.of({2, 3}), b.of({3}));
      },
      "scale_rows", {"(2, 3)", "(3)"});
  rejects([&] { return ops::reshape(b.of({2, 3}), {4}); }, "reshape", {"(2, 3)", "(4)"});
  rejects([&] { return ops::slice(b.of({2, 3}), 1, 2, 4); }, "slice", {"(2, 3)", "[2, 4)"});
  rejects([&] { return ops::slice(b.of({2, 3}), 1, 2, 1); }, "slice", {"[2, 1)"});
  const std::vector<Tensor> uneven = {b.of({2, 3}), b.of({3, 3})};
  rejects([&] { return ops::concat(uneven, 1); }, "concat", {"(2, 3)", "(3, 3)"});
  rejects([&] { return ops::concat({}, 0); }, "concat", {"nothing"});
  rejects([&] { return ops::split_heads(b.of({1, 2, 7}), 2); }, "split_heads", {"(1, 2, 7)"});
  rejects([&] { return ops::merge_heads(b.of({1, 2, 7})); }, "merge_heads", {"(1, 2, 7)"});
  rejects([&] { return ops::repeat_rows(b.of({1, 1, 1, 1}), 2); }, "repeat_rows", {"(1, 1, 1, 1)"});
  rejects([&] { return ops::gather(b.of({2, 3}), b.ids({3, 2})); }, "gather", {"(2, 3)", "(3, 2)"});
  rejects([&] { return ops::gather(b.of({2, 2, 3}), b.ids({3, 2, 2})); }, "gather", {"(3, 2, 2)"});
  rejects([&] { return ops::relative_shift(b.of({3, 4}), 2); }, "relative_shift", {"(3, 4)"});
  rejects(
      [&] {
        return ops::relative_shift(b.of({3, 3}), 2);
      },
      "relative_shift", {"(3, 3)", "too few"});
  rejects([&] { return ops::norm(b.of({2, 3}), b.of({2}), {}); }, "norm", {"(2, 3)", "(2)"});
  rejects([&] { return ops::norm(b.of({}), {}, {}); }, "norm", {"()"});
  rejects(
      [&] {
        return ops::add_norm(b.of({2, 3}), b.of({3}), {}, {});
      },
      "add_norm", {"(2, 3)", "(3)"});
  rejects([&] { return ops::embedding(b.ids({3}), b.of({4})); }, "embedding", {"(3)", "(4)"});
  rejects(
      [&] {
        return ops::rotate(b.of({1, 2, 3, 4}), b.of({1, 3, 1}), b.of({1, 3, 1}), {.width = 4});
      },
      "rotate", {"(1, 2, 3, 4)", "(1, 3, 1)"});
  rejects(
      [&] {
        return ops::rotate(b.of({1, 2, 3, 5}), b.of({1, 3, 2}), b.of({1, 3, 2}), {.width = 3});
      },
      "rotate", {"even", "3"});
  rejects(
      [&] {
        return ops::rotate(b.of({1, 2, 3, 4}), b.of({1, 3, 3}), b.of({1, 3, 3}), {.width = 6});
      },
      "rotate", {"6"});
  rejects(
      [&] {
        return ops::cross_entropy(b.of({2, 3}), b.ids({3}));
      },
      "cross_entropy", {"(2, 3)", "(3)"});
  rejects([&] { return ops::mean_squared_error(b.of({2}), b.of({3})); }, "mean_squared_error",
          {"(2)", "(3)"});
  rejects([&] { return ops::binary_logistic(b.of({2}), b.of({2}), b.ids({3})); }, "binary_logistic",
          {"(2)", "(3)"});
}

TEST_CASE("misuse: attention") {
  Bench b;
  const Tensor q = b.of({2, 3, 4, 5}), k = b.of({2, 3, 6, 5});
  rejects(
      [&] {
        return ops::attention(q, k, b.of({2, 3, 4, 5}), {});
      },
      "attention", {"(2, 3, 4, 5)", "(2, 3, 6, 5)"});
  rejects(
      [&] {
        return ops::attention(q, b.of({2, 3, 6, 4}), b.of({2, 3, 6, 4}), {});
      },
      "attention", {"(2, 3, 6, 4)"});
  ops::AttentionOptions options;
  const auto rejected = [&](const std::vector<std::string>& parts) {
    rejects([&] { return ops::attention(q, k, k, options); }, "attention", parts);
    options = {};
  };
  options.key_mask = b.ids({2, 4});
  rejected({"key mask (2, 4)", "(2, 6)"});
  options.key_mask = b.of({2, 6});
  rejected({"key mask", "f64", "i32"});
  options.row_scale = b.of({2, 6});
  rejected({"row scale (2, 6)"});
  options.bias_table = b.of({3, 10});
  rejected({"bias table (3, 10)"});
  options.bias_table = b.of({3, 9});  // reaches distance 4, needs 5
  rejected({"bias table (3, 9)", "too few"});
  options.bias_dense = b.of({2, 3, 4, 4});
  rejected({"dense bias (2, 3, 4, 4)"});
  options.position_q = b.ids({1, 4});
  rejected({"positions"});
  options.query_offset = -1;
  rejected({"offset", "-1"});
  options.dropout.p = 1;
  rejected({"dropout", "1"});
  options.row_scale = b.of({1, 4});
  options.row_scale.set_requires_gradient(true);
  rejected({"row scale", "gradient"});
}

TEST_CASE("misuse: axes and numbers") {
  Bench b;
  rejects([&] { return ops::sum(b.of({2, 3}), 2); }, "sum", {"axis 2", "(2, 3)"});
  rejects([&] { return ops::mean(b.of({2, 3}), -3); }, "mean", {"axis -3", "(2, 3)"});
  rejects([&] { return ops::mean(b.of({0})); }, "mean", {"(0)"});
  rejects([&] { return ops::softmax(b.of({})); }, "softmax", {"()"});
  rejects([&] { return ops::argmax(b.of({2, 0})); }, "argmax", {"(2, 0)"});
  rejects([&] { return ops::transpose(b.of({2, 3}), 0, 2); }, "transpose", {"axis 2", "(2, 3)"});
  rejects([&] { return ops::permute(b.of({2, 3}), std::vector<int>{0, 0}); }, "permute", {"twice"});
  rejects([&] { return ops::permute(b.of({2, 3}), std::vector<int>{0}); }, "permute", {"(2, 3)"});
  rejects([&] { return ops::slice(b.of({2, 3}), 5, 0, 1); }, "slice", {"axis 5"});
  rejects([&] { return ops::dropout(b.of({2}), {.p = 1.5f}); }, "dropout", {"1.5"});
  rejects([&] { return ops::norm(b.of({2}), {}, {}, {.epsilon = 0}); }, "norm", {"epsilon"});
  rejects(
      [&] {
        return ops::cross_entropy(b.of({2, 3}), b.ids({2}), {.smoothing = 1});
      },
      "cross_entropy", {"1"});
}

TEST_CASE("misuse: dtypes") {
  Bench b;
  rejects([&] { return ops::add(b.of({2}), b.ids({2})); }, "add", {"(2)", "i32", "f64"});
  rejects(
      [&] {
        return ops::embedding(b.of({2}), b.of({4, 3}));
      },
      "embedding", {"ids", "f64", "i32"});
  rejects(
      [&] {
        return ops::cross_entropy(b.of({2, 3}), b.of({2}));
      },
      "cross_entropy", {"targets", "i32"});
  const Tensor single = b.context.make({2}, DType::f32);
  rejects([&] { return ops::square(single); }, "square", {"f32", "f64"});
  CHECK_THROWS_WITH(b.ids({2}).set_requires_gradient(true), ContainsSubstring("no gradient"));
  CHECK_THROWS_WITH(b.of({2}).data_as<float>(),
                    ContainsSubstring("f32") && ContainsSubstring("f64"));
  CHECK_THROWS_WITH(b.of({2}).copy_from(std::span<const double>()), ContainsSubstring("(2)"));
}

TEST_CASE("misuse: undefined tensors and tensors of two contexts") {
  Bench b, other;
  rejects([&] { return ops::add(b.of({2}), {}); }, "add", {"operand 2", "undefined"});
  rejects([&] { return ops::matmul({}, b.of({2, 2})); }, "matmul", {"operand 1", "undefined"});
  rejects([&] { return ops::embedding({}, b.of({2, 2})); }, "embedding", {"ids", "undefined"});
  rejects([&] { return ops::add_norm(b.of({2}), {}, {}, {}); }, "add_norm",
          {"operand 2", "undefined"});
  rejects([&] { return ops::reshape({}, {1}); }, "reshape", {"undefined"});
  rejects([&] { return ops::add(b.of({2}), other.of({2})); }, "add", {"(2)", "different contexts"});
  rejects(
      [&] {
        return ops::linear(b.of({2}), b.of({3, 2}), other.of({3}));
      },
      "linear", {"different contexts"});
  rejects(
      [&] {
        return ops::gather(b.of({2, 2}), other.ids({2, 1}));
      },
      "gather", {"different context"});
  CHECK_THROWS_WITH(Tensor().data(), ContainsSubstring("undefined"));
}

TEST_CASE("misuse: gradients that an operation does not have are refused") {
  Bench b;
  Tensor angle = b.of({1, 3, 2}), target = b.of({2});
  angle.set_requires_gradient(true);
  target.set_requires_gradient(true);
  rejects(
      [&] {
        return ops::rotate(b.of({1, 1, 3, 4}), angle, b.of({1, 3, 2}), {.width = 4});
      },
      "rotate", {"cosine", "gradient"});
  rejects([&] { return ops::mean_squared_error(b.of({2}), target); }, "mean_squared_error",
          {"target", "gradient"});
}

TEST_CASE(
    "misuse: ids, targets and indices out of range name the number, its place and the bound") {
  Bench b;
  const auto ids = [&](const std::vector<int32_t>& values, const Shape& shape) {
    return ints(b.context, values, shape);
  };
  const Tensor table = b.of({5, 3});
  rejects(
      [&] {
        return ops::embedding(ids({0, 4, 2, 5}, {2, 2}), table);
      },
      "embedding", {"ids (2, 2)", "hold 5 at element 3", "outside 0 to 4"});
  rejects([&] { return ops::embedding(ids({-1}, {1}), table); }, "embedding",
          {"hold -1 at element 0", "outside 0 to 4"});
  rejects(
      [&] {
        return ops::embedding(ids({0}, {1}), b.of({0, 3}));
      },
      "embedding", {"hold 0 at element 0"});
  CHECK(ops::embedding(ids({0, 4}, {2}), table).elements() == 6);
  CHECK(ops::embedding(ids({}, {0}), b.of({0, 3})).elements() == 0);

  const Tensor logits = b.of({3, 4});
  rejects(
      [&] {
        return ops::cross_entropy(logits, ids({0, 4, 1}, {3}));
      },
      "cross_entropy", {"targets (3)", "hold 4 at element 1", "outside -1 to 3"});
  rejects(
      [&] {
        return ops::cross_entropy(logits, ids({0, 1, -2}, {3}));
      },
      "cross_entropy", {"hold -2 at element 2", "outside -1 to 3"});
  CHECK(ops::cross_entropy(logits, ids({3, -1, 0}, {3})).loss.defined());

  const Tensor x = b.of({2, 2, 3});
  rejects(
      [&] {
        return ops::gather(x, ids({0, 1, 2, 3}, {2, 2}));
      },
      "gather", {"indices (2, 2)", "hold 3 at element 3", "to 2"});
  CHECK(ops::gather(x, ids({0, -7, 2, -1}, {2, 2})).elements() == 8);  // negative: 0

  // Distances that the table does not hold: the CPU's kernel looks.
  Context context(cpu_backend(), guarded(DType::f32));
  const StepScope step(context);
  const Tensor q = value(context, std::vector<double>(8, 0.5), {1, 1, 2, 4});
  ops::AttentionOptions options;
  options.bias_table = value(context, {1, 2, 3, 4, 5}, {1, 5});  // distances -2 to 2
  options.position_q = ints(context, {0, 1}, {1, 2});
  options.position_k = ints(context, {0, 3}, {1, 2});
  rejects([&] { return ops::attention(q, q, q, options); }, "attention", {"to 3", "reach 3"});
  options.position_k = ints(context, {0, 2}, {1, 2});
  CHECK(ops::attention(q, q, q, options).defined());
}

}  // namespace
}  // namespace longshot::testing
