// Matrix product: C = alpha op(A) op(B), op(A) (..., M, K), op(B) (..., K, N), C (..., M, N).
//
// Either every matrix of A meets its own matrix of B, or one of the two is a single matrix that
// serves all of the other's. The outer product of two vectors is the case K = 1.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

struct MatmulSizes {
  int64_t batch = 1, rows = 0, inner = 0, columns = 0;
  bool shared_a = false, shared_b = false;  // one matrix against `batch` of the other
};

class MatmulNode final : public ResultNode {
 public:
  MatmulNode(Context& context, const Tensor& result, const Tensor& a, const Tensor& b,
             const MatmulSizes& sizes, const MatmulOptions& options)
      : ResultNode(context, result),
        a_(keep_if(b.requires_gradient(), a)),
        b_(keep_if(a.requires_gradient(), b)),
        da_(a),
        db_(b),
        sizes_(sizes),
        options_(options) {}
  const char* name() const override { return "matmul"; }

  // With C = alpha op(A) op(B) and the gradient dC of C:
  //   d op(A) = alpha dC op(B)^T   hence  dA = alpha dC op(B)^T,  or  alpha op(B) dC^T if A is
  //   transposed d op(B) = alpha op(A)^T dC   hence  dB = alpha op(A)^T dC,  or  alpha dC^T op(A)
  //   if B is transposed
  // A matrix that served several products collects the sum over them.
  void backward() override {
    if (da_.wanted()) {
      GemmArgs args = common();
      if (options_.transpose_a) {  // dA (K, M) = op(B) (K, N) dC^T (N, M)
        args.rows = sizes_.inner, args.columns = sizes_.rows, args.inner = sizes_.columns;
        args.transpose_a = options_.transpose_b, args.transpose_b = true;
        set_a(args, b_.data(), b_columns(), b_stride());
        set_b(args, result_.data(), sizes_.columns, c_stride());
      } else {  // dA (M, K) = dC (M, N) op(B)^T (N, K)
        args.rows = sizes_.rows, args.columns = sizes_.inner, args.inner = sizes_.columns;
        args.transpose_b = !options_.transpose_b;
        set_a(args, result_.data(), sizes_.columns, c_stride());
        set_b(args, b_.data(), b_columns(), b_stride());
      }
      args.ldc = a_columns();
      run(args, da_, sizes_.shared_a, a_stride());
    }
    if (db_.wanted()) {
      GemmArgs args = common();
      if (options_.transpose_b) {  // dB (N, K) = dC^T (N, M) op(A) (M, K)
        args.rows = sizes_.columns, args.columns = sizes_.inner, args.inner = sizes_.rows;
        args.transpose_a = true, args.transpose_b = options_.transpose_a;
        set_a(args, result_.data(), sizes_.columns, c_stride());
        set_b(args, a_.data(), a_columns(), a_stride());
      } else {  // dB (K, N) = op(A)^T (K, M) dC (M, N)
        args.rows = sizes_.inner, args.columns = sizes_.columns, args.inner = sizes_.rows;
        args.transpose_a = !options_.transpose_a;
        set_a(args, a_.data(), a_columns(), a_stride());
        set_b(args, result_.data(), sizes_.columns, c_stride());
      }
      args.ldc = b_columns();
      run(args, db_, sizes_.shared_b, b_stride());
    }
  }

 private:
  int64_t a_columns() const { return options_.transpose_a ? sizes_.rows : sizes_.inner; }
  int64_t b_columns() const { return options_.transpose_b ? sizes_.inner : sizes_.columns; }
  int64_t a_stride() const { return sizes_.shared_a ? 0 : sizes_.rows * sizes_.inner; }
  int64_t b_stride() const { return sizes_.shared_b ? 0 : sizes_.inner * sizes_.columns; }
  int64_t c_stride() const { return sizes_.rows * sizes_.columns; }

  GemmArgs common() const {
    GemmArgs args;
    args.dtype = dtype_;
    args.batch = sizes_.batch;
    args.alpha = options_.alpha;
    return args;
  }
  static void set_a(GemmArgs& args, const void* data, int64_t columns, int64_t stride) {
    args.a = data, args.lda = columns, args.stride_a = stride;
  }
  static void set_b(GemmArgs& args, const void* data, int64_t columns, int64_t stride) {
    args.b = data, args.ldb = columns, args.stride_b = stride;
  }
  void run(GemmArgs& args, Gradient& gradient, bool shared, int64_t stride) {
    const Gradient::Target target = gradient.target();
    args.c = target.data;
    args.accumulate = target.accumulate;
    if (!shared) {
      args.stride_c = stride;
      backend().gemm(args);
      return;
    }
    clear_unless_accumulating(backend(), dtype_, args.rows * args.columns, target);
    args.accumulate = true;
    args.batch = 1;  // one product after the other, in order: they add to one matrix
    const char* a = static_cast<const char*>(args.a);
    const char* b = static_cast<const char*>(args.b);
    for (int64_t i = 0; i < sizes_.batch; ++i) {
      args.a = a + i * args.stride_a * size_of(dtype_);
      args.b = b + i * args.stride_b * size_of(dtype_);
      backend().gemm(args);
    }
  }

  Tensor a_, b_;
  Gradient da_, db_;
  MatmulSizes sizes_;
  MatmulOptions options_;
};

MatmulSizes check_sizes(const Shape& a, const Shape& b, const MatmulOptions& options) {
  const auto fail = [&](const char* what) {
    throw Error(fmt::format("matmul: {}{} times {}{}: {}", a.to_string(),
                            options.transpose_a ? "^T" : "", b.to_string(),
                            options.transpose_b ? "^T" : "", what));
  };
  if (a.rank() < 2 || b.rank() < 2) fail("both need at least two axes");
  MatmulSizes sizes;
  sizes.rows = a[options.transpose_a ? -1 : -2];
  sizes.inner = a[options.transpose_a ? -2 : -1];
  sizes.columns = b[options.transpose_b ? -2 : -1];
  if (b[options.transpose_b ? -1 : -2] != sizes.inner) fail("the inner extents differ");
  const int a_leading = a.rank() - 2, b_leading = b.rank() - 2;
  sizes.shared_a = a_leading == 0 && b_leading > 0;
  sizes.shared_b = b_leading == 0 && a_leading > 0;
  if (!sizes.shared_a && !sizes.shared_b) {
    bool equal = a_leading == b_leading;
    for (int i = 0; equal && i < a_leading; ++i) equal = a[i] == b[i];
    if (!equal)
      fail("the leading extents differ (they must be equal, or one side a single matrix)");
  }
  sizes.batch = sizes.shared_a ? b.product(0, b_leading) : a.product(0, a_leading);
  if (sizes.shared_b && !options.transpose_a) {
    // The matrices of A stand below each other: one tall product.
    sizes.rows *= sizes.batch;
    sizes.batch = 1;
    sizes.shared_b = false;
  }
  return sizes;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  Context& context = check_operands("matmul", {&a, &b});
  const MatmulSizes sizes = check_sizes(a.shape(), b.shape(), options);
  Shape shape = a.shape().rank() >= b.shape().rank() ? a.shape() : b.shape();
  shape.set(-2, a.size(options.transpose_a ? -1 : -2));
  shape.set(-1, sizes.columns);
  Tensor result = make_result(context, "matmul", shape);

  GemmArgs args;
  args.dtype = result.dtype();
  args.rows = sizes.rows, args.columns = sizes.columns, args.inner = sizes.inner;
  args.batch = sizes.batch;
  args.transpose_a = options.transpose_a, args.transpose_b = options.transpose_b;
  args.alpha = options.alpha;
  args.a = a.data(), args.lda = a.size(-1);
  args.b = b.data(), args.ldb = b.size(-1);
  args.c = result.data(), args.ldc = sizes.columns;
  args.stride_a = sizes.shared_a ? 0 : sizes.rows * sizes.inner;
  args.stride_b = sizes.shared_b ? 0 : sizes.inner * sizes.columns;
  args.stride_c = sizes.rows * sizes.columns;
  context.backend().gemm(args);
  if (wants_gradient(context, {&a, &b})) record<MatmulNode>(context, result, a, b, sizes, options);
  return result;
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_operands("outer", {&a, &b});
  LONGSHOT_CHECK(a.shape().rank() == 1 && b.shape().rank() == 1,
                 "outer: {} and {}: both must be vectors", a.shape().to_string(),
                 b.shape().to_string());
  return matmul(a.reshape({a.size(0), 1}), b.reshape({1, b.size(0)}));
}

}  // namespace longshot::ops
