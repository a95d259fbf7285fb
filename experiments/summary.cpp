#include "experiments/summary.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/error.h"
#include "core/files.h"
#include "core/random.h"
#include "train/json_text.h"
#include "train/sha256.h"

namespace longshot {
namespace {

using Json = nlohmann::ordered_json;

// "accuracy", with its error, its independent samples and its interval beside it.
void add_share(Json& json, const std::string& name, const Share& share) {
  json[name] = share.value;
  json[name + "_error"] = share.error;
  json[name + "_independent"] = share.independent;
  json[name + "_interval"] = {share.interval().low, share.interval().high};
}

Json to_json(const Score& score) {
  Json json = {{"samples", score.samples},
               {"targets", score.targets},
               {"loss", score.loss},
               {"loss_error", score.loss_error}};
  add_share(json, "accuracy", score.accuracy);
  add_share(json, "sequence_accuracy", score.sequence_accuracy);
  json["constant"] = score.constant;
  json["constant_class"] = score.constant_class;
  json["constant_sequence"] = score.constant_sequence;
  json["coverage"] = score.coverage;
  if (!score.position_accuracy.empty()) {
    json["position_accuracy"] = score.position_accuracy;
    json["position_loss"] = score.position_loss;
  }
  return json;
}

std::string hash_of(const Json& json) {
  const std::string text = json.dump();
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// Results prove themselves: the last member is the SHA-256 of the rest as one line of JSON.
void write_result(const std::string& path, Json json) {
  json = Json::parse(json_text(std::move(json), 1));  // names that are not UTF-8, as they are shown
  json["sha256"] = hash_of(json);
  write_file_atomically(path, json.dump(1) + "\n");
}

// Files of earlier versions have no such member.
Json read_result(const std::string& path) {
  Json json = Json::parse(read_file(path));
  if (!json.is_object() || !json.contains("sha256")) return json;
  const Json stored = json["sha256"];
  json.erase("sha256");
  if (stored != hash_of(json))
    throw UsageError(
        fmt::format("{}: its contents were changed after it was written (they do not have its "
                    "SHA-256); put it back, or delete it and run or evaluate again",
                    path));
  return json;
}

// JSON has no NaN: what was not measured is null.
double number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : double(value);
}
double number(const Json& json, const char* key) {
  return number(json.at(key));
}
// Of a key that earlier versions did not write: not known.
double number_or_not_known(const Json& json, const std::string& key) {
  return json.contains(key) ? number(json.at(key)) : std::numeric_limits<double>::quiet_NaN();
}

Share share_from(const Json& json, const std::string& name) {
  return {number(json.at(name)), number(json.at(name + "_error")),
          number_or_not_known(json, name + "_independent")};
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> result;
  for (const Json& value : list) result.push_back(number(value));
  return result;
}

// For byte models, the same loss in the two other units that are in use.
void add_text_units(Json& evaluation) {
  for (const char* part : {"in_range", "lengths"})
    for (Json& each : evaluation.at(part)) {
      const double loss = number(each, "loss");
      each["perplexity"] = std::exp(loss);
      each["bits_per_byte"] = loss / std::numbers::ln2;
    }
}

Score score_from(const Json& json) {
  Score score;
  score.samples = json.at("samples");
  score.targets = json.at("targets");
  score.loss = number(json, "loss");
  score.loss_error = number_or_not_known(json, "loss_error");
  score.accuracy = share_from(json, "accuracy");
  score.sequence_accuracy = share_from(json, "sequence_accuracy");
  score.constant = number_or_not_known(json, "constant");
  score.constant_class = json.value("constant_class", int64_t(-1));
  score.constant_sequence = number_or_not_known(json, "constant_sequence");
  score.coverage = number_or_not_known(json, "coverage");
  if (json.contains("position_accuracy")) {
    score.position_accuracy = numbers(json.at("position_accuracy"));
    score.position_loss = numbers(json.at("position_loss"));
  }
  return score;
}

Json to_json(const std::vector<LengthScore>& scores) {
  Json list = Json::array();
  for (const LengthScore& each : scores) {
    Json json = to_json(each.score);
    json["length"] = each.length;
    json["window"] = each.sliding ? "sliding" : "segments";
    list.push_back(std::move(json));
  }
  return list;
}

std::vector<LengthScore> scores_from(const Json& list) {
  std::vector<LengthScore> result;
  for (const Json& json : list) {
    result.push_back(
        {json.at("length").get<int64_t>(), json.at("window") == "sliding", score_from(json)});
  }
  return result;
}

Json to_json(const StoredEvaluation& evaluation) {
  return {{"label", evaluation.label},
          {"overrides", evaluation.overrides},
          {"seconds", evaluation.seconds},
          {"in_range_split", name_of(evaluation.scores.in_range_split)},
          {"in_range", to_json(evaluation.scores.in_range)},
          {"lengths", to_json(evaluation.scores.lengths)}};
}

StoredEvaluation evaluation_from(const Json& json) {
  StoredEvaluation result;
  result.label = json.at("label");
  result.overrides = json.at("overrides").get<std::vector<std::string>>();
  result.seconds = json.at("seconds");
  if (json.value("in_range_split", "test") == std::string("validation"))
    result.scores.in_range_split = Split::validation;
  result.scores.in_range = scores_from(json.at("in_range"));
  result.scores.lengths = scores_from(json.at("lengths"));
  return result;
}

}  // namespace

void write_summary(const std::string& folder, const Summary& summary) {
  LONGSHOT_CHECK(!summary.evaluations.empty(), "summary of {}: no evaluation", folder);
  Json axes = Json::object();
  for (const auto& [key, value] : summary.axes) axes[key] = value;
  Json json = {{"format", 1},
               {"version", summary.version},
               {"study", summary.study},
               {"cell", summary.cell},
               {"identity", summary.identity},
               {"task", summary.task},
               {"encoding", summary.encoding},
               {"positions", summary.positions},
               {"encoding_label", summary.encoding_label},
               {"axes", axes},
               {"seed", summary.seed},
               {"device", summary.device},
               {"device_description", summary.device_description},
               {"threads", summary.threads},
               {"parameters", summary.parameters},
               {"parameters_sha256", summary.parameters_sha256},
               {"chance", summary.chance},
               {"constant_is_chance", summary.constant_is_chance},
               {"metric", summary.metric},
               {"bytes", summary.bytes},
               {"train_lengths", {{"min", summary.train_min}, {"max", summary.train_max}}},
               {"steps", summary.steps},
               {"best_step", summary.best_step},
               {"stopped_early", summary.stopped_early},
               {"skipped_steps", summary.skipped_steps},
               {"last_loss", summary.last_loss},
               {"timing",
                {{"train_seconds", summary.train_seconds},
                 {"steps_per_second", summary.steps_per_second},
                 {"tokens_per_second", summary.tokens_per_second}}},
               {"memory_bytes", summary.memory_bytes},
               {"evaluation", to_json(summary.evaluations.front())}};
  if (summary.fixed_samples) json["fixed_samples"] = *summary.fixed_samples;
  if (summary.bytes) add_text_units(json["evaluation"]);
  write_result(folder + "/summary.json", std::move(json));
}

void write_evaluation(const std::string& folder, const StoredEvaluation& evaluation) {
  const std::string evaluations = folder + "/evaluations";
  std::error_code error;
  std::filesystem::create_directories(evaluations, error);
  if (error) throw FileError("cannot make the folder", evaluations, error.value());
  remove_abandoned_files(evaluations);
  // The name is a function of what was asked, so that asking again replaces the same file.
  std::string asked;
  for (const std::string& each : evaluation.overrides) asked += each + "\n";
  std::string name;
  for (const char c : evaluation.label) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '=' || c == '_';
    name += plain ? c : '-';
  }
  if (name.size() > 60) name.resize(60);
  name += fmt::format("-{:08x}", uint32_t(hash_name(asked.data(), asked.size())));
  write_result(folder + "/evaluations/" + name + ".json", to_json(evaluation));
}

int64_t remove_evaluations(const std::string& folder, const std::string& label) {
  int64_t removed = 0;
  for (const std::string& file : list_folder(folder + "/evaluations")) {
    if (!file.ends_with(".json")) continue;
    const Json json = Json::parse(read_file(file), nullptr, false);
    if (label != "all" && (!json.is_object() || json.value("label", "") != label)) continue;
    remove_file(file);
    ++removed;
  }
  return removed;
}

Summary read_summary(const std::string& folder) {
  Summary summary;
  std::string path = folder + "/summary.json";
  try {
    const Json json = read_result(path);
    summary.folder = folder;
    summary.version = json.at("version");
    summary.study = json.at("study");
    summary.cell = json.at("cell");
    summary.identity = json.at("identity");
    summary.task = json.at("task");
    summary.encoding = json.at("encoding");
    summary.positions = json.at("positions");
    summary.encoding_label = json.at("encoding_label");
    for (const auto& [key, value] : json.at("axes").items())
      summary.axes.emplace_back(key, value.get<std::string>());
    summary.seed = json.at("seed");
    summary.device = json.at("device");
    summary.device_description = json.at("device_description");
    summary.threads = json.at("threads");
    summary.parameters = json.at("parameters");
    summary.parameters_sha256 = json.at("parameters_sha256");
    summary.chance = json.at("chance");
    summary.constant_is_chance = json.value("constant_is_chance", false);
    if (json.contains("fixed_samples"))
      summary.fixed_samples = json.at("fixed_samples").get<bool>();
    summary.metric = json.at("metric");
    summary.bytes = json.at("bytes");
    summary.train_min = json.at("train_lengths").at("min");
    summary.train_max = json.at("train_lengths").at("max");
    summary.steps = json.at("steps");
    summary.best_step = json.at("best_step");
    summary.stopped_early = json.at("stopped_early");
    summary.skipped_steps = json.at("skipped_steps");
    summary.last_loss = number(json, "last_loss");
    summary.train_seconds = json.at("timing").at("train_seconds");
    summary.steps_per_second = json.at("timing").at("steps_per_second");
    summary.tokens_per_second = json.at("timing").at("tokens_per_second");
    summary.memory_bytes = json.at("memory_bytes");
    summary.evaluations.push_back(evaluation_from(json.at("evaluation")));
    for (const std::string& file : list_folder(folder + "/evaluations")) {
      if (!file.ends_with(".json")) continue;
      path = file;
      summary.evaluations.push_back(evaluation_from(read_result(file)));
    }
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("{}: not a readable result ({})", path, error.what()));
  }
  return summary;
}

Measure metric_of(const Summary& summary, const Score& score) {
  if (summary.metric == "loss")
    return {score.loss, score.loss_error, std::numeric_limits<double>::quiet_NaN()};
  return summary.metric == "sequence_accuracy" ? score.sequence_accuracy : score.accuracy;
}

Measure mean_of(std::span<const Measure> measures, bool same_samples) {
  if (measures.empty()) return {};
  const double count = double(measures.size());
  double sum = 0, errors = 0, squares = 0, inverse = 0;
  for (const Measure& each : measures) {
    sum += each.value / count;
    errors += each.error;
    squares += each.error * each.error;
    inverse += 1 / each.independent;
  }
  return {sum, (same_samples ? errors : std::sqrt(squares)) / count,
          (same_samples ? count : count * count) / inverse};
}

Interval sampling_of(const Measure& measure, bool loss) {
  if (!loss) return wilson(measure.value, measure.independent);
  return {measure.value - 1.96 * measure.error, measure.value + 1.96 * measure.error};
}

std::vector<int64_t> lengths_beyond(const Summary& summary, const StoredEvaluation& evaluation,
                                    bool sliding) {
  std::vector<int64_t> lengths;
  for (const LengthScore& each : evaluation.scores.lengths)
    if (each.length > summary.train_max && each.sliding == sliding &&
        std::isfinite(metric_of(summary, each.score).value))
      lengths.push_back(each.length);
  return lengths;
}

Measure mean_over(const Summary& summary, const StoredEvaluation& evaluation, bool sliding,
                  const std::vector<int64_t>& lengths) {
  std::vector<Measure> measures;
  for (const LengthScore& each : evaluation.scores.lengths)
    if (each.sliding == sliding &&
        std::find(lengths.begin(), lengths.end(), each.length) != lengths.end())
      measures.push_back(metric_of(summary, each.score));
  if (measures.size() != lengths.size()) return {};
  // Windows of different lengths are of one and the same text.
  return mean_of(measures, summary.bytes);
}

const Score* in_range(const StoredEvaluation& evaluation, bool sliding) {
  for (const LengthScore& each : evaluation.scores.in_range)
    if (each.sliding == sliding) return &each.score;
  return nullptr;
}

}  // namespace longshot
