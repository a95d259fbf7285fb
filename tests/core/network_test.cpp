// Operations together: a small network's gradients, its bits for any number of threads, its memory.

#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "tests/support/op_test.h"
#include "tests/support/small_network.h"

namespace longshot::testing {
namespace {

// Losses and all gradients of some steps, as raw bits.
template <class T>
std::vector<T> run(int count, int thread_count) {
  set_threads(thread_count);
  Backend& backend = backend_for(dtype_of<T>());
  Context context(backend, guarded(dtype_of<T>(), backend));
  SmallNetwork network(context);
  std::vector<T> bits;
  for (int i = 0; i < count; ++i) {
    T loss = 0;
    network.step(uint32_t(i), &loss);
    bits.push_back(loss);
    for (const Tensor& parameter : network.parameters()) {
      const std::vector<T> gradient = parameter.gradient_to_host<T>();
      bits.insert(bits.end(), gradient.begin(), gradient.end());
    }
  }
  context.step_heap().check_guards();
  context.persistent_heap().check_guards();
  set_threads(0);
  return bits;
}

template <class T>
void check_threads() {
  const std::vector<T> one = run<T>(2, 1);
  for (const T each : one) REQUIRE(each == each);  // no NaN from poisoned memory
  for (const int count : {2, 3, 4}) {
    INFO(count << " threads");
    const std::vector<T> many = run<T>(2, count);
    REQUIRE(one.size() == many.size());
    CHECK(std::memcmp(one.data(), many.data(), one.size() * sizeof(T)) == 0);
  }
}

TEST_CASE("network: 1, 2, 3 and 4 threads give equal bits") {
  check_threads<float>();
  check_threads<double>();
}

template <class T>
std::vector<double> loss_and_gradients(Backend& backend) {
  Context context(backend, guarded(dtype_of<T>(), backend));
  SmallNetwork network(context);
  T loss = 0;
  network.step(0, &loss);
  std::vector<double> numbers = {double(loss)};
  for (const Tensor& parameter : network.parameters()) {
    const std::vector<double> gradient = parameter.gradient_to_doubles();
    numbers.insert(numbers.end(), gradient.begin(), gradient.end());
  }
  return numbers;
}

TEST_CASE("network: the backend agrees with the reference") {
  const std::vector<double> expected = loss_and_gradients<double>(reference_backend());
  const auto doubles = loss_and_gradients<double>(backend_for(DType::f64));
  check_close(doubles, expected, 1e-7, "loss and gradients");  // the dropout rate is a float
  const auto floats = loss_and_gradients<float>(backend_for(DType::f32));
  check_close(floats, expected, kSingleTolerance, "loss and gradients in f32");
}

TEST_CASE("network: the backend is asked for no memory after the second step") {
  Context context(backend_for(DType::f32), ContextOptions{DType::f32, {}});
  SmallNetwork network(context);
  float loss = 0;
  network.step(0, &loss);
  network.step(0, &loss);
  const int64_t step_slabs = context.step_heap().slabs_taken();
  const int64_t persistent_slabs = context.persistent_heap().slabs_taken();
  const float expected = loss;
  for (int i = 0; i < 5; ++i) network.step(0, &loss);
  CHECK(context.step_heap().slabs_taken() == step_slabs);
  CHECK(context.persistent_heap().slabs_taken() == persistent_slabs);
  CHECK(loss == expected);
}

}  // namespace
}  // namespace longshot::testing
