// Rows of a table: y[r] = scale * table[ids[r]], ids (...) i32, table (V, d), y (..., d).

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class EmbeddingNode final : public ResultNode {
 public:
  EmbeddingNode(Context& context, const Tensor& result, const Tensor& ids, const Tensor& table,
                double scale)
      : ResultNode(context, result),
        ids_(ids),
        dtable_(table),
        rows_(table.size(0)),
        columns_(table.size(1)),
        scale_(scale) {}
  const char* name() const override { return "embedding"; }

  // dtable[v] = scale * sum over the r with ids[r] = v of dy[r], in an order fixed by the ids
  void backward() override {
    const Gradient::Target target = dtable_.target();
    EmbeddingBackwardArgs args;
    args.dtype = dtype_;
    args.count = ids_.elements(), args.rows = rows_, args.columns = columns_;
    args.ids = ids_.data_as<int32_t>();
    args.dout = result_.data();
    args.dtable = target.data;
    args.scale = scale_;
    args.accumulate = target.accumulate;
    backend().embedding_backward(args);
  }

 private:
  Tensor ids_;
  Gradient dtable_;
  int64_t rows_, columns_;
  double scale_;
};

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& table, double scale) {
  Context& context = check_operands("embedding", {&table});
  check_integers("embedding", context, "ids", ids);
  LONGSHOT_CHECK(table.shape().rank() == 2 && ids.shape().rank() < Shape::kMaxRank,
                 "embedding: ids {} in table {}: the table must be (rows, width), the ids have at "
                 "most {} axes",
                 ids.shape().to_string(), table.shape().to_string(), Shape::kMaxRank - 1);
  check_indices("embedding", "ids", ids, 0, table.size(0));
  Shape shape = ids.shape();
  shape.append(table.size(1));
  Tensor result = make_result(context, "embedding", shape);
  EmbeddingArgs args;
  args.dtype = result.dtype();
  args.count = ids.elements(), args.rows = table.size(0), args.columns = table.size(1);
  args.ids = ids.data_as<int32_t>();
  args.table = table.data();
  args.out = result.data();
  args.scale = scale;
  context.backend().embedding(args);
  if (wants_gradient(context, {&table})) record<EmbeddingNode>(context, result, ids, table, scale);
  return result;
}

}  // namespace longshot::ops
