// One encoding by itself, for tests: built from a line of TOML, fed positions and tensors by hand,
// its answers read back in double.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/config_toml.h"
#include "core/context.h"
#include "core/ops.h"
#include "nn/positional_encoding.h"
#include "tests/catch.h"
#include "tests/support/operation_devices.h"

namespace longshot::testing {

using Doubles = std::vector<double>;

inline DrawnPositions contiguous_positions(int64_t length) {
  DrawnPositions drawn;
  drawn.contiguous = true;
  drawn.limit = length;
  for (int64_t t = 0; t < length; ++t) drawn.values.push_back(double(t));
  return drawn;
}

// Positions given by hand, `batches` rows of them; limit 0: one above the largest.
inline DrawnPositions positions_at(Doubles values, int64_t batches = 1, int64_t limit = 0) {
  DrawnPositions drawn;
  drawn.batches = batches;
  drawn.limit = limit;
  for (const double value : values) {
    drawn.limit = std::max(drawn.limit, int64_t(std::floor(value)) + 1);
    drawn.fractional = drawn.fractional || value != std::floor(value);
  }
  drawn.values = std::move(values);
  return drawn;
}

class EncodingBench {
 public:
  explicit EncodingBench(const std::string& toml, EncodingModel model = {4, 1, 4, 1, false, 0, 0},
                         DType dtype = DType::f64)
      : context(backend_for(dtype), {.dtype = dtype, .heap = {}}), store(context) {
    const ConfigTable table = parse_toml(toml, "test.toml");
    const ConfigValue& type = *table.find("type");
    const auto& entry =
        Registry<PositionalEncoding>::instance().get(type.as_string(), "encoding", type.where());
    encoding =
        entry.create(table, {"encoding", {}, {"type"}}, model, ModuleScope(store).sub("encoding"));
    store.place(1);
  }

  SequenceContext sequence(DrawnPositions drawn, int64_t batch = 1, bool training = false) {
    SequenceContext result;
    result.context = &context;
    result.batch = batch;
    result.length = int64_t(drawn.values.size()) / drawn.batches;
    result.lengths.assign(size_t(batch), int32_t(result.length));
    result.first_token.assign(size_t(batch), 0);
    result.training = training;
    result.positions.push_back(std::move(drawn));
    return result;
  }

  Tensor tensor(const Doubles& values, const Shape& shape) {
    return context.from_doubles(values, shape);
  }
  Tensor zeros(const Shape& shape) { return tensor(Doubles(size_t(shape.elements()), 0.0), shape); }

  void set_parameter(const std::string& name, const Doubles& values) {
    const Parameter::Entry* entry = store.find(name);
    REQUIRE(entry != nullptr);
    REQUIRE(entry->tensor.dtype() == DType::f64);
    entry->tensor.copy_from(std::span<const double>(values));
  }
  const Tensor& parameter(const std::string& name) {
    const Parameter::Entry* entry = store.find(name);
    REQUIRE(entry != nullptr);
    return entry->tensor;
  }

  // The input-side hook on zeros: (batch * length, dim) numbers, the code itself.
  Doubles code(const SequenceContext& sequence, int64_t dim) {
    StepScope step(context);
    encoding->prepare(sequence);
    return encoding->on_embeddings(zeros({sequence.batch, sequence.length, dim}), sequence)
        .to_doubles();
  }

  // The bias of query rows [begin, begin + rows) as plain numbers (batches, heads, rows, length),
  // by the statement in nn/positional_encoding.h; query and key are `query_values` and zeros.
  struct Bias {
    int64_t batches = 1, heads = 1, rows = 0, length = 0;
    Doubles values;
    double at(int64_t head, int64_t i, int64_t j, int64_t batch = 0) const {
      return values[size_t(((batch * heads + head) * rows + i) * length + j)];
    }
  };
  Bias bias(const SequenceContext& sequence, int64_t heads, int64_t head_dim, int64_t begin = 0,
            int64_t rows = 0, const Doubles& query_values = {}, int layer = 0) {
    StepScope step(context);
    encoding->prepare(sequence);
    return read_bias(sequence, heads, head_dim, begin, rows, query_values, layer);
  }
  Bias read_bias(const SequenceContext& sequence, int64_t heads, int64_t head_dim,
                 int64_t begin = 0, int64_t rows = 0, const Doubles& query_values = {},
                 int layer = 0) {
    if (rows == 0) rows = sequence.length;
    const Shape shape{sequence.batch, heads, rows, head_dim};
    const Tensor query = query_values.empty() ? zeros(shape) : tensor(query_values, shape);
    const Tensor key = zeros({sequence.batch, heads, sequence.length, head_dim});
    const LogitBias given = encoding->on_logits(query, key, sequence, layer, begin);
    Bias result;
    result.heads = heads, result.rows = rows, result.length = sequence.length;
    if (given.dense.defined()) {
      REQUIRE(given.dense.size(1) == heads);
      REQUIRE(given.dense.size(2) == rows);
      REQUIRE(given.dense.size(3) == sequence.length);
      result.batches = given.dense.size(0);
      result.values = given.dense.to_doubles();
      return result;
    }
    if (given.relative.rows.defined()) {
      const Tensor scores = ops::relative_scores(query, sequence.length, given.relative, begin);
      result.batches = scores.size(0);
      result.values = scores.to_doubles();
      return result;
    }
    REQUIRE(given.table.defined());
    const Doubles table = given.table.to_doubles();
    const int64_t width = given.table.size(1), reach = (width + 1) / 2;
    std::vector<int32_t> query_position, key_position;
    if (given.position_q.defined()) {
      result.batches = given.position_q.size(0);
      query_position = given.position_q.to_host<int32_t>();
      key_position = given.position_k.to_host<int32_t>();
    }
    for (int64_t b = 0; b < result.batches; ++b)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < sequence.length; ++j) {
            const int64_t distance = query_position.empty()
                                         ? j - (begin + i)
                                         : int64_t(key_position[size_t(b * sequence.length + j)]) -
                                               query_position[size_t(b * rows + i)];
            REQUIRE(std::abs(distance) < reach);
            result.values.push_back(table[size_t(head * width + reach - 1 + distance)]);
          }
    return result;
  }

  Context context;
  ParameterStore store;
  std::unique_ptr<PositionalEncoding> encoding;
};

inline void check_values(const Doubles& got, const Doubles& expected, double tolerance = 1e-12) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": " << got[i] << " instead of " << expected[i]);
    CHECK(std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
  }
}

template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The message of building an encoding, which must be refused as a mistake in the config.
inline std::string refusal(const std::string& toml,
                           EncodingModel model = {4, 1, 4, 1, false, 0, 0}) {
  try {
    EncodingBench bench(toml, model);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace longshot::testing
