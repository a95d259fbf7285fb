// Scaled dot-product attention (Vaswani et al. 2017), streamed over keys (Rabe and Staats 2021, Dao
// et al. 2022):
//
//   s_ij = scale row_scale_i (q_i . k_j) + bias(i, j),   p_i = softmax over the allowed keys of s_i
//   out_i = sum_j dropout(p)_ij v_j
//
// query (B, H, T, D), key and value (B, H, S, D), out (B, T, H * D). The bias is a table over
// distances (H, 2R - 1), or dense (1 or B, H, T, S), or products with relative keys, or several of
// them. A row that may see no key gives 0.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

// The kernel's arguments, from the operation's tensors; `out` and `log_sum_exp` included.
AttentionArgs kernel_args(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options, const Tensor& out,
                          const Tensor& log_sum_exp) {
  const auto integers = [](const Tensor& tensor) -> const int32_t* {
    return tensor.defined() ? tensor.data_as<int32_t>() : nullptr;
  };
  const auto pointer = [](const Tensor& tensor) -> const void* {
    return tensor.defined() ? tensor.data() : nullptr;
  };
  AttentionArgs args;
  args.dtype = query.dtype();
  args.shape = {query.size(0), query.size(1), query.size(2), key.size(2), query.size(3)};
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.scale = options.scale;
  args.row_scale = pointer(options.row_scale);
  if (options.row_scale.defined()) args.row_scale_batches = options.row_scale.size(0);
  args.key_mask = integers(options.key_mask);
  args.causal = options.causal;
  args.query_offset = options.query_offset;
  args.bias_table = pointer(options.bias_table);
  if (options.bias_table.defined()) args.reach = (options.bias_table.size(1) + 1) / 2;
  args.position_q = integers(options.position_q);
  args.position_k = integers(options.position_k);
  if (options.position_q.defined()) args.position_batches = options.position_q.size(0);
  args.bias_dense = pointer(options.bias_dense);
  if (options.bias_dense.defined()) args.dense_batches = options.bias_dense.size(0);
  if (const Tensor& rows = options.relative.rows; rows.defined()) {
    args.relative_key = rows.data();
    args.relative_heads = rows.size(0);
    if (rows.shape().rank() == 3) args.relative_reach = (rows.size(1) + 1) / 2;
    args.relative_bias = pointer(options.relative.bias);
    args.relative_scale = options.relative.scale;
  }
  args.dropout = options.dropout;
  args.out = out.data();
  args.log_sum_exp = log_sum_exp.data();
  return args;
}

class AttentionNode final : public ResultNode {
 public:
  AttentionNode(Context& context, const Tensor& result, const Tensor& query, const Tensor& key,
                const Tensor& value, const AttentionOptions& options, const Tensor& log_sum_exp)
      : ResultNode(context, result),
        query_(query),
        key_(key),
        value_(value),
        out_(result),
        log_sum_exp_(log_sum_exp),
        options_(options),
        gradients_{Gradient(query),
                   Gradient(key),
                   Gradient(value),
                   Gradient(options.bias_table),
                   Gradient(options.bias_dense),
                   Gradient(options.relative.rows),
                   Gradient(options.relative.bias)} {}
  const char* name() const override { return "attention"; }

  // p is computed again, tile by tile, from the logits and the saved log-sum-exp L_i: p_ij =
  // exp(s_ij - L_i). With m_ij the dropout factor (0 or 1 / (1 - rate)):
  //   dv_j  = sum_i p_ij m_ij dout_i
  //   dp_ij = m_ij (dout_i . v_j)
  //   ds_ij = p_ij (dp_ij - sum_k p_ik dp_ik) = p_ij (dp_ij - dout_i . out_i)
  //   dq_i  = scale row_scale_i sum_j ds_ij k_j,   dk_j = sum_i scale row_scale_i ds_ij q_i
  //   dbias = ds, summed over what shares an entry
  // and with relative keys r, w_i = s row_scale_i (q_i + b):
  //   dr_ij = ds_ij w_i,   dq_i += s row_scale_i sum_j ds_ij r_ij,   db = sum_i the same
  // The sum over k is dout_i . out_i because out_i = sum_k p_ik m_ik v_k: this is why `out` is
  // saved.
  void backward() override {
    AttentionBackwardArgs args;
    args.forward = kernel_args(query_, key_, value_, options_, out_, log_sum_exp_);
    args.dout = result_.data();
    void** targets[kGradients] = {&args.dquery,        &args.dkey,        &args.dvalue,
                                  &args.dbias_table,   &args.dbias_dense, &args.drelative_key,
                                  &args.drelative_bias};
    bool* accumulate[kGradients] = {&args.accumulate_dquery,        &args.accumulate_dkey,
                                    &args.accumulate_dvalue,        &args.accumulate_dbias_table,
                                    &args.accumulate_dbias_dense,   &args.accumulate_drelative_key,
                                    &args.accumulate_drelative_bias};
    bool repeated = false;
    for (int i = 0; i < kGradients; ++i) {
      if (!gradients_[i].wanted()) continue;
      const Gradient::Target target = gradients_[i].target();
      *targets[i] = target.data;
      *accumulate[i] = target.accumulate;
      for (int j = 0; j < i; ++j) repeated = repeated || *targets[j] == target.data;
    }
    if (!repeated) {
      backend().attention_backward(args);
      return;
    }
    // One tensor in several roles (query = key): kernels write distinct outputs, so one at a time.
    for (int i = 0; i < kGradients; ++i) {
      if (*targets[i] == nullptr) continue;
      AttentionBackwardArgs single = args;
      if (i != 0) single.dquery = nullptr;
      if (i != 1) single.dkey = nullptr;
      if (i != 2) single.dvalue = nullptr;
      if (i != 3) single.dbias_table = nullptr;
      if (i != 4) single.dbias_dense = nullptr;
      if (i != 5) single.drelative_key = nullptr;
      if (i != 6) single.drelative_bias = nullptr;
      backend().attention_backward(single);
    }
  }

 private:
  static constexpr int kGradients = 7;  // query, key, value, table, dense, relative rows, bias

  Tensor query_, key_, value_, out_, log_sum_exp_;
  AttentionOptions options_;
  Gradient gradients_[kGradients];
};

// `tensor` is (1 or batch, length).
void check_per_row(const char* role, const Tensor& tensor, int64_t batch, int64_t length) {
  const bool fits = tensor.shape().rank() == 2 && tensor.size(1) == length &&
                    (tensor.size(0) == 1 || tensor.size(0) == batch);
  LONGSHOT_CHECK(fits, "attention: {} {} must be (1 or {}, {})", role, tensor.shape().to_string(),
                 batch, length);
}

void check_bias(const AttentionOptions& options, int64_t batch, int64_t heads, int64_t queries,
                int64_t keys) {
  const Tensor& table = options.bias_table;
  const Tensor& dense = options.bias_dense;
  if (table.defined()) {
    LONGSHOT_CHECK(table.shape().rank() == 2 && table.size(0) == heads && table.size(1) % 2 == 1,
                   "attention: bias table {} must be ({}, 2 reach - 1)", table.shape().to_string(),
                   heads);
    const int64_t reach = (table.size(1) + 1) / 2;
    const bool contiguous = !options.position_q.defined() && queries > 0 && keys > 0;
    LONGSHOT_CHECK(!contiguous || (options.query_offset + queries <= reach &&
                                   keys - options.query_offset <= reach),
                   "attention: bias table {} reaches distances below {}, too few for query rows {} "
                   "to {} and {} keys",
                   table.shape().to_string(), reach, options.query_offset,
                   options.query_offset + queries - 1, keys);
  }
  if (dense.defined()) {
    const bool fits = dense.shape().rank() == 4 && (dense.size(0) == 1 || dense.size(0) == batch) &&
                      dense.size(1) == heads && dense.size(2) == queries && dense.size(3) == keys;
    LONGSHOT_CHECK(fits, "attention: dense bias {} must be (1 or {}, {}, {}, {})",
                   dense.shape().to_string(), batch, heads, queries, keys);
  }
}

void check_masks(const Context& context, const AttentionOptions& options, int64_t batch,
                 int64_t queries, int64_t keys) {
  LONGSHOT_CHECK(options.query_offset >= 0,
                 "attention: the query offset must not be negative, got {}", options.query_offset);
  if (options.key_mask.defined()) {
    check_integers("attention", context, "key mask", options.key_mask);
    LONGSHOT_CHECK(options.key_mask.shape() == Shape({batch, keys}),
                   "attention: key mask {} must be ({}, {})", options.key_mask.shape().to_string(),
                   batch, keys);
  }
  if (options.row_scale.defined()) {
    check_per_row("row scale", options.row_scale, batch, queries);
    check_no_gradient("attention", "row scale", options.row_scale);
  }
  LONGSHOT_CHECK(options.position_q.defined() == options.position_k.defined(),
                 "attention: positions must be given for queries and keys, or for neither");
  if (options.position_q.defined()) {
    check_integers("attention", context, "query positions", options.position_q);
    check_integers("attention", context, "key positions", options.position_k);
    check_per_row("query positions", options.position_q, batch, queries);
    check_per_row("key positions", options.position_k, batch, keys);
    LONGSHOT_CHECK(options.position_q.size(0) == options.position_k.size(0),
                   "attention: query positions {} and key positions {} differ in batch",
                   options.position_q.shape().to_string(), options.position_k.shape().to_string());
  }
}

// The options with relative keys turned into a dense bias.
AttentionOptions without_relative(const Tensor& query, int64_t keys, AttentionOptions options) {
  Tensor scores = relative_scores(query, keys, options.relative, options.query_offset);
  if (options.row_scale.defined()) scores = scale_query_rows(scores, options.row_scale);
  Tensor& dense = options.bias_dense;
  if (!dense.defined())
    dense = scores;
  else
    dense = add(scores, dense.size(0) == 1
                            ? reshape(dense, {dense.size(1), dense.size(2), dense.size(3)})
                            : dense);
  options.relative = {};
  return options;
}

}  // namespace

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options) {
  Context& context = check_operands("attention", {&query, &key, &value},
                                    {&options.row_scale, &options.bias_table, &options.bias_dense});
  const bool fits = query.shape().rank() == 4 && key.shape().rank() == 4 &&
                    key.shape() == value.shape() && key.size(0) == query.size(0) &&
                    key.size(1) == query.size(1) && key.size(3) == query.size(3);
  LONGSHOT_CHECK(
      fits,
      "attention: query {}, key {}, value {}: needs (batch, heads, queries, width) and twice "
      "(batch, heads, keys, width)",
      query.shape().to_string(), key.shape().to_string(), value.shape().to_string());
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2);
  check_masks(context, options, batch, queries, key.size(2));
  check_bias(options, batch, heads, queries, key.size(2));
  const bool relative = options.relative.rows.defined();
  LONGSHOT_CHECK(relative || !options.relative.bias.defined(),
                 "attention: a bias for relative keys, but no relative keys");
  if (relative) {
    check_relative_keys(context, options.relative, heads, queries, key.size(2), query.size(3),
                        options.query_offset);
    if (!context.backend().fuses_relative_keys())
      return attention(query, key, value, without_relative(query, key.size(2), options));
  }
  AttentionOptions checked = options;
  checked.dropout = check_dropout("attention", context, options.dropout);

  Tensor result = make_result(context, "attention", {batch, queries, heads * query.size(3)});
  const Tensor log_sum_exp = make_result(context, "attention", {batch, heads, queries});
  context.backend().attention(kernel_args(query, key, value, checked, result, log_sum_exp));
  if (wants_gradient(context, {&query, &key, &value, &options.bias_table, &options.bias_dense,
                               &options.relative.rows, &options.relative.bias}))
    record<AttentionNode>(context, result, query, key, value, checked, log_sum_exp);
  return result;
}

}  // namespace longshot::ops
