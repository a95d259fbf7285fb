// The store's layout, its initial values, and wrong use.
#include "nn/parameter_store.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/ops.h"
#include "tests/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/operation_devices.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

const Initializer kNormal = Initializer::normal(1.0);

std::vector<double> values_of(const ParameterStore& store, const std::string& name) {
  return store.find(name)->tensor.to_doubles();
}

}  // namespace

TEST_CASE("parameter store: decayed first, starts aligned to 16 elements, gaps zero",
          "[parameters]") {
  Context context(backend_for(DType::f32));
  ParameterStore store(context);
  store.declare("a", {3}, Initializer::constant(1), false);
  store.declare("b", {5, 4}, Initializer::constant(2), true);
  store.declare("c", {16}, Initializer::constant(3), true);
  store.declare("d", {1}, Initializer::constant(4), false);
  store.place(1);

  CHECK(store.find("b")->offset == 0);
  CHECK(store.find("c")->offset == 32);  // 20 elements, then a gap of 12
  CHECK(store.decayed_elements() == 48);
  CHECK(store.find("a")->offset == 48);
  CHECK(store.find("d")->offset == 64);
  CHECK(store.elements() == 80);
  CHECK(store.parameter_count() == 3 + 20 + 16 + 1);
  CHECK(store.names(true) == std::vector<std::string>{"b", "c"});
  CHECK(store.names(false) == std::vector<std::string>{"a", "d"});

  std::vector<double> expected(80, 0.0);
  for (int i = 0; i < 20; ++i) expected[size_t(i)] = 2;
  for (int i = 32; i < 48; ++i) expected[size_t(i)] = 3;
  for (int i = 48; i < 51; ++i) expected[size_t(i)] = 1;
  expected[64] = 4;
  CHECK(store.parameters().to_doubles() == expected);
  CHECK(store.gradients().to_doubles() == std::vector<double>(80, 0.0));
  CHECK(store.first_moments().to_doubles() == std::vector<double>(80, 0.0));
  CHECK(store.second_moments().to_doubles() == std::vector<double>(80, 0.0));
}

TEST_CASE("parameter store: initial values depend on seed and name alone", "[parameters]") {
  Context context(backend_for(DType::f32));
  const auto build = [&](bool more, uint64_t seed) {
    ParameterStore store(context);
    if (more) store.declare("block.0.extra", {7}, kNormal, true);
    store.declare("block.0.weight", {4, 4}, kNormal, true);
    if (more) store.declare("z", {2}, kNormal, false);
    store.declare("block.1.weight", {4, 4}, kNormal, true);
    store.place(seed);
    return std::pair{values_of(store, "block.0.weight"), values_of(store, "block.1.weight")};
  };
  const auto plain = build(false, 1);
  CHECK(build(true, 1) == plain);
  CHECK(plain.first != plain.second);
  CHECK(build(false, 2).first != plain.first);
}

TEST_CASE("parameter store: initialisers have the distributions they name", "[parameters]") {
  Context context(backend_for(DType::f64), {.dtype = DType::f64, .heap = {}});
  ParameterStore store(context);
  const int64_t n = 40000;
  store.declare("normal", {n}, Initializer::normal(2.0), false);
  store.declare("truncated", {n}, Initializer::truncated_normal(2.0), false);
  store.declare("uniform", {n}, Initializer::uniform(3.0), false);
  store.declare("zeros", {n}, Initializer::zeros(), false);
  store.declare("ones", {n}, Initializer::ones(), false);
  store.place(4);
  const auto moments = [&](const char* name) {
    double mean = 0, square = 0, most = 0;
    for (const double x : values_of(store, name)) {
      mean += x / double(n);
      square += x * x / double(n);
      most = std::max(most, std::abs(x));
    }
    return std::array{mean, std::sqrt(std::max(0.0, square - mean * mean)), most};
  };
  CHECK(moments("normal")[0] == Approx(0).margin(0.05));
  CHECK(moments("normal")[1] == Approx(2).margin(0.05));
  CHECK(moments("normal")[2] > 6);
  // A standard normal cut at +-2 has variance 1 - 2 * 2 phi(2) / (2 Phi(2) - 1) = 0.7737, deviation
  // 0.8796.
  CHECK(moments("truncated")[0] == Approx(0).margin(0.05));
  CHECK(moments("truncated")[1] == Approx(2 * 0.8796).margin(0.04));
  CHECK(moments("truncated")[2] <= 4);
  CHECK(moments("uniform")[0] == Approx(0).margin(0.05));
  CHECK(moments("uniform")[1] == Approx(3 / std::sqrt(3.0)).margin(0.04));
  CHECK(moments("uniform")[2] <= 3);
  CHECK(moments("zeros")[2] == 0);
  CHECK(values_of(store, "ones") == std::vector<double>(size_t(n), 1.0));
}

TEST_CASE("parameter store: first contribution writes, later ones add, untouched ones are zero",
          "[parameters]") {
  Context context(backend_for(DType::f32));
  ParameterStore store(context);
  const Parameter used = store.declare("used", {2}, Initializer::constant(3), false);
  store.declare("unused", {2}, Initializer::constant(5), false);
  store.place(1);
  const auto backward = [&] {
    const StepScope step(context);
    context.tape().backward(ops::sum(ops::scale(used, 2.0)));
  };
  for (int round = 0; round < 2; ++round) {  // the second round must not add to the first
    store.begin_gradients();
    backward();
    backward();
    store.finish_gradients();
    CHECK(store.find("used")->tensor.gradient_to_doubles() == std::vector<double>{4, 4});
    CHECK(store.find("unused")->tensor.gradient_to_doubles() == std::vector<double>{0, 0});
  }
  store.begin_gradients();
  store.finish_gradients();  // nothing ran: zero, not the round before
  CHECK(store.gradients().to_doubles() == std::vector<double>(size_t(store.elements()), 0.0));
}

TEST_CASE("parameter store: wrong use names the parameter", "[parameters]") {
  Context context(backend_for(DType::f32));
  ParameterStore store(context);
  const Parameter early = store.declare("block.0.weight", {2, 3}, kNormal, true);
  CHECK_THROWS_WITH(early.tensor(),
                    ContainsSubstring("block.0.weight") && ContainsSubstring("place"));
  CHECK_THROWS_WITH(store.declare("block.0.weight", {1}, kNormal, true),
                    ContainsSubstring("declared twice"));
  CHECK_THROWS_WITH(Parameter().tensor(), ContainsSubstring("without having been declared"));
  store.place(1);
  CHECK(early.tensor().shape() == Shape{2, 3});
  CHECK_THROWS_WITH(store.declare("late", {1}, kNormal, true), ContainsSubstring("late"));
  CHECK_THROWS_AS(store.place(1), Error);
  CHECK(store.find("late") == nullptr);
}

TEST_CASE("module scope: paths are joined by dots", "[parameters]") {
  Context context(backend_for(DType::f32));
  ParameterStore store(context);
  ModuleScope(store).sub("block.3").sub("attention").declare("weight", {1}, kNormal, true);
  ModuleScope(store, "head").declare("bias", {1}, kNormal, false);
  CHECK(store.names(true) == std::vector<std::string>{"block.3.attention.weight"});
  CHECK(store.names(false) == std::vector<std::string>{"head.bias"});
}
