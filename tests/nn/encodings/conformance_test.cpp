// What every registered encoding must do in a small encoder, bidirectional and causal, with every
// sampler: gradients, the attention's fused form, shifts, lengths past training, thread counts,
// call history, padding.
#include <filesystem>

#include "nn/relative.h"
#include "tests/nn/encodings/conformance_support.h"
#include "tests/support/test_backends.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

std::string type_line(const std::string& name) {
  return "type = '" + name + "'";
}

void take_gradients(SmallEncoder& model, const EncoderInput& input) {
  StepScope step(model.context);
  model.encoder.parameters().begin_gradients();
  model.context.tape().backward(model.loss(input));
  model.encoder.parameters().finish_gradients();
}

// In f32 differences say little: the gradients are compared with the CPU's in f64, parameter by
// parameter.
void compare_with_cpu(const SmallModel& small, SmallEncoder& model, const EncoderInput& input) {
  SmallModel in_double = small;
  in_double.device = {&cpu_backend(), DType::f64};
  SmallEncoder trusted(in_double);
  take_gradients(trusted, input);
  take_gradients(model, input);
  for (const Parameter::Entry& entry : model.encoder.parameters().entries()) {
    INFO(entry.name);
    const Doubles expected =
        trusted.encoder.parameters().find(entry.name)->tensor.gradient_to_doubles();
    double scale = 1;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    CHECK(largest_difference(expected, entry.tensor.gradient_to_doubles()) <
          kSingleTolerance * scale);
  }
}

// Central differences for a few elements of every parameter: those with the largest gradient, and
// some others.
void check_gradients_of(const SmallModel& small, SmallEncoder& model, const EncoderInput& input) {
  if (small.device.dtype == DType::f32) return compare_with_cpu(small, model, input);
  ParameterStore& store = model.encoder.parameters();
  take_gradients(model, input);
  const auto loss_now = [&] {
    StepScope step(model.context);
    NoRecordingScope no_recording(model.context);
    return model.loss(input).to_doubles()[0];
  };
  for (const Parameter::Entry& entry : store.entries()) {
    const Doubles gradient = entry.tensor.gradient_to_doubles();
    Doubles values = entry.tensor.to_doubles();
    size_t largest = 0, second = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (std::abs(gradient[i]) <= std::abs(gradient[largest])) continue;
      second = largest;
      largest = i;
    }
    for (const size_t i : std::set<size_t>{largest, second, size_t(gradient.size() / 2)}) {
      // Four points, because the norms bend the loss strongly at the small initial embeddings.
      const double before = values[i], h = 1e-5;
      const auto loss_at = [&](double change) {
        values[i] = before + change;
        entry.tensor.copy_from(std::span<const double>(values));
        return loss_now();
      };
      const double expected =
          (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      loss_at(0);
      INFO(entry.name << "[" << i << "]: backward " << gradient[i] << ", differences " << expected);
      CHECK(std::abs(gradient[i] - expected) <= 1e-6 * std::max(1.0, std::abs(expected)));
    }
  }
}

}  // namespace

TEST_CASE("every encoding's gradients agree with finite differences, with every sampler") {
  const std::vector<int32_t> tokens = tokens_for(2 * 5);
  const std::vector<int32_t> lengths = {5, 3};
  for (const EncodingConfig& each : encoding_configs())
    for (const bool causal : {false, true}) {
      if (each.refused(causal)) continue;
      for (const std::string& positions : sampler_configs()) {
        INFO(each.toml << (causal ? " causal " : " bidirectional ") << positions);
        SmallModel small{each.toml, positions, causal};
        SmallEncoder model(small);
        EncoderInput input = input_of(tokens, 2, true);
        check_gradients_of(small, model, input);
        if (positions != sampler_configs().front()) continue;
        input.lengths = lengths;
        check_gradients_of(small, model, input);
      }
    }
}

TEST_CASE("every encoding's bias acts in fused attention as its statement says") {
  const int64_t batch = 2, heads = 2, length = 6, width = 4;
  Doubles q, k, v;
  for (int i = 0; i < batch * heads * length * width; ++i)
    q.push_back(std::sin(0.7 * i)), k.push_back(std::cos(1.1 * i)), v.push_back(std::sin(2.9 * i));
  std::vector<DrawnPositions> cases = {contiguous_positions(length),
                                       positions_at({0, 2, 3, 9, 11, 12}),
                                       positions_at({0, 2, 3, 9, 11, 12, 1, 2, 3, 4, 8, 20}, 2)};
  cases.push_back(cases[0]);
  cases.back().contiguous = false;
  cases.back().limit = 40;
  cases.back().distances = {0, 1, 4, 5, 9, 17};
  for (const std::string& name : encoding_names())
    for (const bool causal : {false, true}) {
      if (refused_by_design(name, causal)) continue;
      for (size_t index = 0; index < cases.size(); ++index) {
        INFO(name << (causal ? " causal" : " bidirectional") << ", positions " << index);
        const OperationDevice device = model_device();
        EncodingBench bench(type_line(name), {heads * width, heads, width, 1, causal, 12, 40},
                            device.dtype);
        SequenceContext sequence = bench.sequence(cases[index], batch);
        sequence.causal = causal;
        StepScope step(bench.context);
        bench.encoding->prepare(sequence);
        const Shape shape{batch, heads, length, width};
        const auto [query, key] = bench.encoding->on_query_key(bench.tensor(q, shape),
                                                               bench.tensor(k, shape), sequence, 0);
        const LogitBias bias = bench.encoding->on_logits(query, key, sequence, 0, 0);
        if (bias.relative_values.defined()) continue;  // never fused
        if (bench.encoding->traits().distance_table && Distances::always_a_table(cases[index])) {
          CHECK(bias.table.defined());  // memory estimates count on it
          CHECK_FALSE(bias.dense.defined());
        }
        ops::AttentionOptions options;
        options.scale = 0.5;
        options.causal = causal;
        options.row_scale = bias.row_scale;
        options.bias_table = bias.table;
        options.position_q = bias.position_q;
        options.position_k = bias.position_k;
        options.bias_dense = bias.dense;
        const Tensor value = bench.tensor(v, shape);
        const Doubles fused = ops::attention(query, key, value, options).to_doubles();

        const Doubles rotated_q = query.to_doubles(), rotated_k = key.to_doubles();
        EncodingBench::Bias plain;
        if (bias.table.defined() || bias.dense.defined())
          plain = bench.read_bias(sequence, heads, width, 0, 0, rotated_q);
        Doubles expected(fused.size(), 0.0);
        for (int64_t b = 0; b < batch; ++b)
          for (int64_t h = 0; h < heads; ++h)
            for (int64_t i = 0; i < length; ++i) {
              const int64_t keys = causal ? i + 1 : length;
              Doubles logits;
              double sum = 0;
              for (int64_t j = 0; j < keys; ++j) {
                double logit = 0;
                for (int64_t d = 0; d < width; ++d)
                  logit += 0.5 * rotated_q[size_t(((b * heads + h) * length + i) * width + d)] *
                           rotated_k[size_t(((b * heads + h) * length + j) * width + d)];
                if (!plain.values.empty()) logit += plain.at(h, i, j, plain.batches == 1 ? 0 : b);
                logits.push_back(std::exp(logit));
                sum += logits.back();
              }
              for (int64_t j = 0; j < keys; ++j)
                for (int64_t d = 0; d < width; ++d)
                  expected[size_t(((b * length + i) * heads + h) * width + d)] +=
                      logits[size_t(j)] / sum *
                      v[size_t(((b * heads + h) * length + j) * width + d)];
            }
        CHECK(largest_difference(fused, expected) < device_tolerance(1e-10));
      }
    }
}

TEST_CASE("relative encodings do not notice a shift of all positions, the others do") {
  const std::vector<int32_t> tokens = tokens_for(2 * 6);
  const EncoderInput input = input_of(tokens, 2);
  for (const std::string& name : encoding_names())
    for (const bool causal : {false, true}) {
      if (refused_by_design(name, causal)) continue;
      INFO(name << (causal ? " causal" : " bidirectional"));
      SmallEncoder model({type_line(name), "type = 'contiguous'", causal});
      const Doubles still = model.run(input);
      const EncodingTraits traits = model.encoder.encoding().traits();
      for (const double offset : {1.0, 37.0, 20000.0}) {
        // A table has no row for positions so large.
        if (traits.capacity > 0 && offset + 6 > double(traits.capacity)) continue;
        const double difference = largest_difference(still, model.run_shifted(input, offset));
        if (traits.relative)
          CHECK(difference < device_tolerance(1e-9));
        else
          CHECK(difference > 1e-9);
      }
      if (traits.relative && traits.fractional)
        CHECK(largest_difference(still, model.run_shifted(input, 2.25)) < device_tolerance(1e-9));
    }
}

TEST_CASE("every encoding runs at four times the training length, or stops as it says") {
  const std::vector<int32_t> tokens = tokens_for(32);
  for (const std::string& name : encoding_names())
    for (const bool causal : {false, true}) {
      if (refused_by_design(name, causal)) continue;
      INFO(name << (causal ? " causal" : " bidirectional"));
      SmallModel small{type_line(name), "type = 'contiguous'", causal};
      small.train_length = 8;
      SmallEncoder model(small);
      for (const double value : model.run(input_of(tokens, 1))) REQUIRE(std::isfinite(value));
      CHECK_FALSE(model.encoder.encoding().traits().beyond.empty());

      bool bounded = false;
      for (const FieldInfo& field : Registry<PositionalEncoding>::instance().find(name)->describe())
        bounded = bounded || field.key == "capacity";
      if (!bounded) {
        CHECK(model.encoder.encoding().traits().capacity == 0);
        continue;
      }
      small.encoding += "\ncapacity = 16";
      SmallEncoder short_table(small);
      CHECK(short_table.encoder.encoding().traits().capacity == 16);
      const std::string message = error_of([&] { short_table.run(input_of(tokens, 1)); });
      CHECK_THAT(message, ContainsSubstring(name));
      CHECK_THAT(message, ContainsSubstring("32"));
      CHECK_THAT(message, ContainsSubstring("16"));
      for (const char* beyond : {"clamp", "zero"}) {
        SmallModel other = small;
        other.encoding += fmt::format("\nbeyond = '{}'", beyond);
        SmallEncoder lenient(other);
        for (const double value : lenient.run(input_of(tokens, 1))) REQUIRE(std::isfinite(value));
      }
    }
}

namespace {

// On the emulated device, where an element costs a thousand times more: each encoding once.
bool left_to_cpu(const EncodingConfig& each, bool causal) {
  return testing_cuda() && (!causal || each.toml != type_line(each.name));
}

}  // namespace

TEST_CASE("every encoding gives equal bits for 1 to 4 threads") {
  const std::vector<int32_t> tokens = tokens_for(3 * 37);
  const auto bits = [&](const std::string& toml, const std::string& positions, bool causal,
                        int count) {
    set_threads(count);
    SmallModel small{toml, positions, causal};
    small.device.dtype = DType::f32;
    SmallEncoder model(small);
    const EncoderInput input = input_of(tokens, 3, true);
    StepScope step(model.context);
    model.encoder.parameters().begin_gradients();
    const Tensor loss = model.loss(input);
    model.context.tape().backward(loss);
    model.encoder.parameters().finish_gradients();
    Doubles result = model.encoder.parameters().gradients().to_doubles();
    result.push_back(loss.to_doubles()[0]);
    set_threads(0);
    return result;
  };
  for (const EncodingConfig& each : encoding_configs())
    for (const bool causal : {false, true}) {
      if (each.refused(causal) || left_to_cpu(each, causal)) continue;
      for (const char* positions :
           {"type = 'contiguous'", "type = 'randomized'\nmax = 100\ndraw = 'sequence'"}) {
        INFO(each.toml << (causal ? " causal " : " bidirectional ") << positions);
        const Doubles one = bits(each.toml, positions, causal, 1);
        for (const int count : testing_cuda() ? std::vector{3} : std::vector{2, 3, 4})
          CHECK(bits(each.toml, positions, causal, count) == one);
      }
    }
}

TEST_CASE("results do not depend on what was asked before") {
  for (const EncodingConfig& each : encoding_configs())
    for (const bool causal : {false, true}) {
      if (each.refused(causal) || left_to_cpu(each, causal)) continue;
      INFO(each.toml << (causal ? " causal" : " bidirectional"));
      SmallModel small{each.toml, "type = 'contiguous'", causal};
      small.device.dtype = DType::f32;
      small.layers = 1;
      SmallEncoder used(small);
      const int64_t longest = testing_cuda() ? 64 : 512;
      for (const int64_t length : {longest, longest + 1, longest - 1, int64_t(8), int64_t(64)}) {
        SmallEncoder fresh(small);
        const std::vector<int32_t> tokens = tokens_for(length);
        CHECK(used.run(input_of(tokens, 1)) == fresh.run(input_of(tokens, 1)));
      }
    }
}

TEST_CASE("a row alone, padded on the right and padded on the left gives the same outputs") {
  const int64_t real = 5, padded = 10;
  const std::vector<int32_t> alone = tokens_for(real);
  std::vector<int32_t> right(size_t(2 * padded), 1), left = right;
  std::copy(alone.begin(), alone.end(), right.begin());
  std::copy(alone.begin(), alone.end(), left.begin() + (padded - real));
  // Beside a row that fills the length.
  const std::vector<int32_t> other = tokens_for(padded);
  std::copy(other.begin(), other.end(), right.begin() + padded);
  std::copy(other.begin(), other.end(), left.begin() + padded);
  const std::vector<int32_t> lengths = {int32_t(real), int32_t(padded)};
  for (const EncodingConfig& each : encoding_configs())
    for (const bool causal : {false, true}) {
      if (each.refused(causal)) continue;
      for (const std::string& positions : sampler_configs()) {
        INFO(each.toml << (causal ? " causal " : " bidirectional ") << positions);
        SmallModel small{each.toml, positions, causal};
        small.train_length = padded;
        SmallEncoder model(small);
        const Doubles expected = model.run(input_of(alone, 1));
        EncoderInput input = input_of(right, 2);
        input.lengths = lengths;
        const Doubles from_right = model.run(input);
        input = input_of(left, 2);
        input.lengths = lengths;
        input.left_padded = true;
        const Doubles from_left = model.run(input);
        const auto row = [](const Doubles& all, int64_t begin) {
          return Doubles(all.begin() + begin * kClasses, all.begin() + (begin + real) * kClasses);
        };
        CHECK(largest_difference(expected, row(from_right, 0)) < device_tolerance(1e-9));
        CHECK(largest_difference(expected, row(from_left, padded - real)) < device_tolerance(1e-9));
      }
    }
}

TEST_CASE("switching the encoding changes neither other parameters nor dropout") {
  const std::vector<int32_t> tokens = tokens_for(2 * 6);
  const EncoderInput input = input_of(tokens, 2, true);
  SmallModel small{type_line("none")};
  small.dropout = 0.1;
  SmallEncoder plain(small);
  for (const std::string& name : encoding_names()) {
    if (refused_by_design(name, false)) continue;
    INFO(name);
    SmallModel other = small;
    other.encoding = type_line(name);
    SmallEncoder model(other);
    int64_t shared = 0;
    for (const Parameter::Entry& entry : model.encoder.parameters().entries()) {
      const Parameter::Entry* same = plain.encoder.parameters().find(entry.name);
      CHECK((same != nullptr) == (entry.name.rfind("encoding.", 0) != 0));
      if (same == nullptr) continue;
      ++shared;
      CHECK(same->tensor.to_doubles() == entry.tensor.to_doubles());
      CHECK(same->decay == entry.decay);
    }
    CHECK(shared == int64_t(plain.encoder.parameters().entries().size()));
  }
  // An added table of zeros: what enters the first layer is bit for bit the same.
  small.layers = 0;
  const auto entering = [&](const std::string& encoding) {
    SmallModel one = small;
    one.encoding = encoding;
    SmallEncoder model(one);
    return model.run(input);
  };
  const Doubles without = entering(type_line("none"));
  CHECK(entering("type = 'learned'\ndeviation = 0.0") == without);
  SmallModel no_dropout = small;
  no_dropout.dropout = 0;
  CHECK(SmallEncoder(no_dropout).run(input) != without);
}

TEST_CASE("without an encoding a bidirectional encoder permutes with its input") {
  SmallEncoder model({type_line("none")});
  const std::vector<int32_t> tokens = {0, 1, 2, 4, 4, 4};  // three equal placeholders
  const Doubles straight = model.run(input_of(tokens, 1));
  const Doubles reversed = model.run(input_of({4, 4, 4, 2, 1, 0}, 1));
  for (int64_t t = 0; t < 6; ++t)
    for (int64_t c = 0; c < kClasses; ++c)
      CHECK(std::abs(straight[size_t(t * kClasses + c)] -
                     reversed[size_t((5 - t) * kClasses + c)]) < device_tolerance(1e-12));
  for (int64_t c = 0; c < kClasses; ++c) {
    CHECK(std::abs(straight[size_t(3 * kClasses + c)] - straight[size_t(4 * kClasses + c)]) <
          device_tolerance(1e-12));
    CHECK(std::abs(straight[size_t(3 * kClasses + c)] - straight[size_t(5 * kClasses + c)]) <
          device_tolerance(1e-12));
  }
  SmallModel causal{type_line("none")};
  causal.causal = true;
  const Doubles ordered = SmallEncoder(causal).run(input_of(tokens, 1));
  CHECK(std::abs(ordered[size_t(3 * kClasses)] - ordered[size_t(5 * kClasses)]) > 1e-6);
}

TEST_CASE("every file of an encoding registers its own name, and nothing else is registered") {
  std::set<std::string> files;
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(LONGSHOT_SOURCE_DIR) + "/nn/encodings"))
    if (file.path().extension() == ".cpp") files.insert(file.path().stem().string());
  const std::vector<std::string> names = encoding_names();
  CHECK(std::set<std::string>(names.begin(), names.end()) == files);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(std::filesystem::exists(std::string(LONGSHOT_SOURCE_DIR) + "/tests/nn/encodings/" + name +
                                  "_test.cpp"));
    CHECK_FALSE(Registry<PositionalEncoding>::instance().find(name)->summary.empty());
  }
}
