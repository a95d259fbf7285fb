// Tensors and tape: handles and their lifetimes, gradients of reused values, recycling.

#include "core/tape.h"

#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("tape: z = y y + y with y = x x at x = 3 has dz/dx = 114 (B30)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {3}, {}, true);
    const Tensor y = ops::mul(x, x);
    const Tensor z = ops::add(ops::mul(y, y), y);
    check_values(z, {90});
    context.tape().backward(z);
    check_gradient(x, {114});
    // A second backward is an error, not a doubled gradient.
    CHECK_THROWS_WITH(context.tape().backward(z), ContainsSubstring("backward has run already"));
    check_gradient(x, {114});
  });
}

TEST_CASE("tape: a second backward beside new operations is an error too") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {3}, {}, true);
    const Tensor z = ops::square(x);
    context.tape().backward(z);
    const Tensor other = ops::square(x);
    CHECK_THROWS_WITH(context.tape().backward(z), ContainsSubstring("differentiated already"));
    context.tape().backward(other);  // adds: 6 + 6
    check_gradient(x, {12});
  });
}

TEST_CASE("tape: what is not a recorded scalar cannot be differentiated") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 2}, {2}, true);
    CHECK_THROWS_WITH(context.tape().backward(ops::square(x)),
                      ContainsSubstring("one element") && ContainsSubstring("(2)"));
    const Tensor constant = ops::sum(value(context, {1, 2}, {2}));
    CHECK_THROWS_WITH(context.tape().backward(constant), ContainsSubstring("nothing was recorded"));
    const NoRecordingScope off(context);
    const size_t before = context.tape().size();
    CHECK(!ops::sum(x).requires_gradient());
    CHECK(context.tape().size() == before);
  });
}

TEST_CASE("tape: nodes that the loss does not depend on leave no gradient") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {2}, {}, true), y = value(context, {5}, {}, true);
    const Tensor unused = ops::square(y);
    context.tape().backward(ops::square(x));
    check_gradient(x, {4});
    CHECK(!y.has_gradient());
    CHECK_THROWS_WITH(y.gradient_data(), ContainsSubstring("no gradient"));
  });
}

TEST_CASE("gradients of persistent tensors add up over backward passes until reset") {
  on_every_device([](Context& context) {
    const Tensor weight = random_leaf(context, {3}, 1);
    for (int pass = 1; pass <= 3; ++pass) {
      const StepScope step(context);
      context.tape().backward(ops::sum(ops::scale(weight, 2)));
      check_gradient(weight, std::vector<double>(3, 2.0 * pass));
    }
    reset_gradient(weight);
    const StepScope step(context);
    context.tape().backward(ops::sum(weight));
    check_gradient(weight, {1, 1, 1});
  });
}

TEST_CASE("tensor: a handle kept past its step is an error with the tensor's name") {
  on_every_device([](Context& context) {
    Tensor kept, copy;
    {
      const StepScope step(context);
      kept = value(context, {1, 2}, {2});
      kept.set_name("attention output");
    }
    CHECK_THROWS_WITH(kept.data(), ContainsSubstring("attention output"));
    copy = kept;  // copying and dropping a stale handle is harmless
    const StepScope step(context);
    const Tensor fresh = value(context, {7, 8}, {2});  // takes over the record
    CHECK_THROWS_WITH(copy.to_doubles(), ContainsSubstring("attention output"));
    CHECK_THROWS_WITH(ops::square(kept), ContainsSubstring("attention output"));
    kept = Tensor();
    copy = Tensor();
    check_values(fresh, {7, 8});
  });
}

TEST_CASE("tensor: step tensors need a step, steps do not nest") {
  on_every_device([](Context& context) {
    CHECK_THROWS_WITH(context.make({2, 3}),
                      ContainsSubstring("(2, 3)") && ContainsSubstring("StepScope"));
    const Tensor leaf = random_leaf(context, {2}, 1);
    CHECK_THROWS_WITH(ops::square(leaf),
                      ContainsSubstring("square") && ContainsSubstring("StepScope"));
    const StepScope step(context);
    CHECK_THROWS_WITH(StepScope(context), ContainsSubstring("open already"));
  });
}

TEST_CASE("tensor: the last handle gives the memory back at once") {
  Context context(reference_backend(), ContextOptions{DType::f32, {}});
  const StepScope step(context);
  const size_t before = context.step_heap().used();
  Tensor a = context.make({1000});
  const void* address = a.data();
  Tensor b = a.reshape({10, 100});
  a = Tensor();
  CHECK(context.step_heap().used() > before);
  b = Tensor();
  CHECK(context.step_heap().used() == before);
  CHECK(context.make({1000}).data() == address);
}

TEST_CASE("memory: activations that no backward reads die during the forward pass") {
  Context context(reference_backend(), ContextOptions{DType::f32, {}});
  const int64_t n = 64 * 1024;
  const Tensor x = random_leaf(context, {n}, 1);
  const StepScope step(context);
  Tensor y = ops::scale(x, 2);
  for (int i = 0; i < 20; ++i) y = ops::add_scalar(y, 1);  // saves nothing
  // Two alive at a time: the one being made and its input.
  CHECK(context.step_heap().peak() <= size_t(2 * n * 4 + 4096));
  for (int i = 0; i < 4; ++i) y = ops::square(y);  // saves its input
  CHECK(context.step_heap().used() >= size_t(5 * n * 4));
  const Tensor loss = ops::sum(y);
  y = Tensor();
  context.tape().backward(loss);
  // Everything but the loss and its gradient has gone.
  CHECK(context.step_heap().used() <= 1024);
}

TEST_CASE("memory: backward frees gradients as it goes") {
  Context context(reference_backend(), ContextOptions{DType::f32, {}});
  const int64_t n = 64 * 1024;
  const Tensor x = random_leaf(context, {n}, 1);
  const StepScope step(context);
  Tensor y = ops::scale(x, 2);
  for (int i = 0; i < 30; ++i) y = ops::scale(y, 0.5);
  const Tensor loss = ops::sum(y);
  y = Tensor();
  context.tape().backward(loss);
  CHECK(context.step_heap().peak() <= size_t(3 * n * 4 + 4096));
  CHECK(x.gradient_to_host<float>()[5] == 2.0f / float(1 << 30));
}

class Failing final : public Node {
 public:
  Failing(const Tensor& saved, int* destroyed) : saved_(saved), destroyed_(destroyed) {}
  ~Failing() override { ++*destroyed_; }
  const char* name() const override { return "failing"; }
  bool reached() const override { return true; }
  void backward() override { throw Error("this one fails"); }

 private:
  Tensor saved_;
  int* destroyed_;
};

TEST_CASE("tape: a node that throws is destroyed and gives back what it saved") {
  Context context(reference_backend(), ContextOptions{DType::f32, {}});
  const StepScope step(context);
  const Tensor x = value(context, {3}, {}, true);
  Tensor saved = value(context, std::vector<double>(1000, 1.0), {1000});
  const Tensor z = ops::square(x);
  const size_t used = context.step_heap().used();
  int destroyed = 0;
  context.tape().record<Failing>(saved, &destroyed);
  saved = Tensor();
  CHECK_THROWS_WITH(context.tape().backward(z), ContainsSubstring("this one fails"));
  CHECK(destroyed == 1);
  CHECK(context.step_heap().used() == used - 4096 + 256);  // and the gradient of z was made
  context.tape().clear();
  CHECK(destroyed == 1);
}

}  // namespace
}  // namespace longshot::testing
