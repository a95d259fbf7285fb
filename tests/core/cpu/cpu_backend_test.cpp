// The backend class: memory, its errors, and that a method reaches its kernel with either type.
#include "core/cpu/cpu_backend.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("cpu backend: what it says of itself", "[cpu][backend]") {
  const auto backend = make_cpu_backend();
  CHECK(std::string(backend->name()) == "cpu");
  CHECK(backend->host_accessible());
  CHECK(backend->supports(DType::f64));
  CHECK(!backend->description().empty());
}

TEST_CASE("backend: memory is aligned, copied and cleared", "[backend]") {
  Backend* const backend = &testing::backend_for(DType::f32);
  for (size_t bytes : {size_t(0), size_t(1), size_t(1000), size_t(5) << 20}) {
    void* block = backend->allocate(bytes);
    CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0);
    std::vector<unsigned char> content(bytes), back(bytes, 1);
    for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<unsigned char>(i * 7 + i / 251);
    backend->copy_to_device(block, content.data(), bytes);
    backend->copy_to_host(back.data(), block, bytes);
    CHECK(back == content);
    void* other = backend->allocate(bytes);
    backend->copy_on_device(other, block, bytes);
    backend->fill_zero(block, bytes);
    backend->synchronize();
    backend->copy_to_host(back.data(), other, bytes);
    CHECK(back == content);
    backend->copy_to_host(back.data(), block, bytes);
    CHECK(back == std::vector<unsigned char>(bytes, 0));
    backend->release(block, bytes);
    backend->release(other, bytes);
  }
}

TEST_CASE("cpu backend: out of memory names the bytes, i32 arithmetic is refused",
          "[cpu][backend]") {
  const auto backend = make_cpu_backend();
  const size_t impossible = size_t(1) << 62;
  CHECK_THROWS_WITH(backend->allocate(impossible), ContainsSubstring("4611686018427387904 bytes"));
  CHECK_THROWS_AS(backend->allocate(SIZE_MAX), Error);
  UnaryArgs args;
  args.dtype = DType::i32;
  CHECK_THROWS_WITH(backend->unary(args), ContainsSubstring("unary") && ContainsSubstring("i32"));
}

TEST_CASE("cpu backend: the element type chooses the kernel", "[cpu][backend]") {
  const auto backend = make_cpu_backend();
  const std::vector<float> xf = {1, -2, 3};
  const std::vector<double> xd = {1, -2, 3};
  Guarded<float> yf(3);
  Guarded<double> yd(3);
  AffineArgs args;
  args.n = 3, args.alpha = 2, args.beta = 1, args.x = xf.data(), args.y = yf.data();
  backend->affine(args);
  CHECK(yf.values() == std::vector<float>{3, -3, 7});
  args.dtype = DType::f64, args.x = xd.data(), args.y = yd.data();
  backend->affine(args);
  CHECK(yd.values() == std::vector<double>{3, -3, 7});
}
