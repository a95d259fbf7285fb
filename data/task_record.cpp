#include "data/task_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace longshot {
namespace {

using nlohmann::ordered_json;

constexpr Output kOutputs[] = {Output::placeholders, Output::per_token, Output::last_token,
                               Output::first_token, Output::mean};

// "bytes", or a list of code points.
ordered_json symbols_json(const std::string& bytes, const std::vector<int32_t>& points) {
  if (!points.empty()) return points;
  if (bytes.size() == 256) return "bytes";
  ordered_json list = ordered_json::array();
  for (const char byte : bytes) list.push_back(int(uint8_t(byte)));
  return list;
}

void read_symbols(const nlohmann::json& json, std::string& bytes, std::vector<int32_t>& points) {
  if (json.is_string()) {
    for (int byte = 0; byte < 256; ++byte) bytes.push_back(char(byte));
    return;
  }
  points = json.get<std::vector<int32_t>>();
  if (!std::all_of(points.begin(), points.end(), [](int32_t p) { return p >= 0 && p < 128; }))
    return;
  bytes.assign(points.begin(), points.end());
  points.clear();
}

}  // namespace

void OutputLengths::add(int64_t inputs, int64_t outputs) {
  most = std::max(most, outputs);
  int64_t& here = at[inputs];
  here = std::max(here, outputs);
  as_inputs = as_inputs && inputs == outputs;
}

int64_t OutputLengths::operator()(int64_t length) const {
  if (const auto found = at.find(length); found != at.end()) return found->second;
  return as_inputs ? length : most;
}

void RecordedTask::example(const ExampleKey&, Example&) const {
  throw Error("this task is known from task.json alone, which holds no examples");
}

int64_t RecordedTask::output_length(int64_t length) const {
  switch (record_.spec.output) {
    case Output::per_token:
      return length;
    case Output::placeholders:
      return record_.outputs(length);
    default:
      return 1;
  }
}

std::string to_json(const TaskRecord& record) {
  const TaskSpec& spec = record.spec;
  ordered_json at = ordered_json::array();
  if (spec.output == Output::placeholders)
    for (const auto& [inputs, outputs] : record.outputs.at) at.push_back({inputs, outputs});
  ordered_json train_lengths = ordered_json::array();
  for (const auto& [length, count] : record.train_lengths) train_lengths.push_back({length, count});
  const ordered_json json = {
      {"format", 1},
      {"from_options", record.from_options},
      {"input_vocabulary", spec.input_vocabulary},
      {"output_classes", spec.output_classes},
      {"output", name_of(spec.output)},
      {"placeholder_token", spec.placeholder_token},
      {"padding_token", spec.padding_token},
      {"begin_token", spec.begin_token},
      {"separator_token", spec.separator_token},
      {"end_token", spec.end_token},
      {"causal", spec.causal},
      {"bytes", spec.bytes},
      {"windowed", spec.windowed},
      {"exact_match", spec.exact_match},
      {"fixed_samples", spec.fixed_samples},
      {"chance", spec.chance},
      {"chance_reason", spec.chance_reason},
      {"level", spec.level},
      {"input_symbols", symbols_json(spec.input_symbols, spec.input_points)},
      {"output_symbols", symbols_json(spec.output_symbols, spec.output_points)},
      {"seen", record.seen},
      {"train_lengths", train_lengths},
      {"outputs",
       {{"at", at}, {"as_inputs", record.outputs.as_inputs}, {"most", record.outputs.most}}}};
  return json.dump() + "\n";
}

TaskRecord parse_task_record(std::string_view text, const std::string& file) {
  TaskRecord record;
  TaskSpec& spec = record.spec;
  try {
    const auto json = nlohmann::json::parse(text);
    if (const int format = json.at("format"); format != 1)
      throw UsageError(fmt::format("{}: format {}, and this version reads format 1", file, format));
    json.at("from_options").get_to(record.from_options);
    json.at("input_vocabulary").get_to(spec.input_vocabulary);
    json.at("output_classes").get_to(spec.output_classes);
    const std::string output = json.at("output");
    const auto* found = std::find_if(std::begin(kOutputs), std::end(kOutputs),
                                     [&](Output each) { return output == name_of(each); });
    if (found == std::end(kOutputs))
      throw UsageError(fmt::format("{}: unknown output \"{}\"", file, output));
    spec.output = *found;
    json.at("placeholder_token").get_to(spec.placeholder_token);
    json.at("padding_token").get_to(spec.padding_token);
    json.at("begin_token").get_to(spec.begin_token);
    json.at("separator_token").get_to(spec.separator_token);
    json.at("end_token").get_to(spec.end_token);
    json.at("causal").get_to(spec.causal);
    json.at("bytes").get_to(spec.bytes);
    json.at("windowed").get_to(spec.windowed);
    json.at("exact_match").get_to(spec.exact_match);
    json.at("fixed_samples").get_to(spec.fixed_samples);
    json.at("chance").get_to(spec.chance);
    json.at("chance_reason").get_to(spec.chance_reason);
    json.at("level").get_to(spec.level);
    read_symbols(json.at("input_symbols"), spec.input_symbols, spec.input_points);
    read_symbols(json.at("output_symbols"), spec.output_symbols, spec.output_points);
    json.at("seen").get_to(record.seen);
    for (const auto& pair : json.at("train_lengths")) record.train_lengths[pair.at(0)] = pair.at(1);
    const auto& outputs = json.at("outputs");
    for (const auto& pair : outputs.at("at")) record.outputs.at[pair.at(0)] = pair.at(1);
    outputs.at("as_inputs").get_to(record.outputs.as_inputs);
    outputs.at("most").get_to(record.outputs.most);
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("{}: not a description of a task ({})", file, error.what()));
  }
  return record;
}

}  // namespace longshot
