// `longshot predict RUN`: sequences on standard input, predictions on standard output, a line each,
// written out as soon as it is known.
//
// How a line is read: experiments/predict_input.h. What the task adds to it (BEGIN, SEPARATOR, CLS,
// placeholders) is added here, unless --raw says that the line is the model's whole input.
//
// Causal tasks write their answer greedily, up to the end token (not shown) or the answer's known
// length. Models of text predict the byte after each position; with --tokens N they continue the
// line by N bytes; masked ones say which byte they take each position for (id 256 is the mask).
//
// Output: predicted classes as text for a line of text, as ids for a line of ids. What text cannot
// show (a class without a character, a line break) comes as ids, or as {"input": ...}: the line
// always reads back as the same ids. --logits: {"logits": [[...], ...]} with round-trip digits.
// --loss: {"loss": ...} of the line's bytes after the first, as an evaluation measures it. --json:
// one object with "input" and "predictions" (ids), "text" (where there are characters), "ended"
// (whether an answer had its end token), and with --loss and --logits those too.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/core.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/log.h"
#include "core/parallel.h"
#include "core/streams.h"
#include "data/task_record.h"
#include "experiments/commands.h"
#include "experiments/decode.h"
#include "experiments/load.h"
#include "experiments/predict_input.h"
#include "experiments/run_cell.h"
#include "experiments/run_folder.h"
#include "experiments/run_task.h"
#include "train/checkpoint.h"

namespace longshot {
namespace {

LineForm form_named(const std::string& name) {
  return name == "ids"    ? LineForm::ids
         : name == "text" ? LineForm::text
         : name == "json" ? LineForm::json
                          : LineForm::automatic;
}

// Round-trip digits, as JSON writes numbers: what is not finite is null there.
template <class Number>
std::string digits(Number value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string logits_json(const Predictions& predictions) {
  const size_t rows = predictions.classes.size();
  std::string text = "[";
  for (size_t k = 0; k < rows; ++k) {
    const size_t classes = predictions.logits.size() / rows;
    text += k == 0 ? "[" : ", [";
    for (size_t c = 0; c < classes; ++c)
      text += (c == 0 ? "" : ", ") + digits(predictions.logits[k * classes + c]);
    text += "]";
  }
  return text + "]";
}

// What holds for all lines of one call.
class LinePredictor {
 public:
  LinePredictor(const PredictArguments& arguments, BuiltModel& built, uint64_t seed)
      : arguments_(arguments),
        task_(*built.task),
        spec_(task_.spec()),
        decoder_(*built.encoder, seed),
        inputs_{Alphabet(spec_.input_symbols, spec_.input_points), spec_.input_vocabulary},
        outputs_{Alphabet(spec_.output_symbols, spec_.output_points), spec_.output_classes} {
    const std::vector<int32_t> seen = task_.record().seen;
    seen_ = {seen.begin(), seen.end()};
    const bool text = spec_.bytes && spec_.causal;
    if (arguments.tokens > 0 && (!text || arguments.raw || arguments.loss))
      throw UsageError(text
                           ? "predict: --tokens goes with neither --raw nor --loss"
                           : "predict: --tokens needs a model of text that predicts the next byte; "
                             "other tasks know how long an answer is");
    if (arguments.loss && !text)
      throw UsageError("predict: --loss needs a model of text that predicts the next byte");
    if (!arguments.raw && spec_.answers() && spec_.end_token < 0 && !spec_.answer_length_known)
      log::warn(
          "this task's answers have no end token and more than one length; the longest is written");
    if (!arguments.raw && (spec_.answers() || arguments.tokens > 0) && built.encoder->by_length())
      log::warn(
          "positions depend on a sequence's length here (encoding {}, positions {}): what was read "
          "changes with every token written, and answers may differ from those of an evaluation, "
          "which shows the model the whole answer's length",
          built.encoder->encoding_config().find("type")->as_string(),
          built.encoder->positions_config().find("type")->as_string());
  }

  // The output for line `number` (from 1).
  std::string operator()(const std::string& text, int64_t number) {
    Line line;
    PromptLayout layout;
    try {
      line = read_line(text, inputs_, form_named(arguments_.input));
      layout = lay_out(task_, line.tokens, arguments_.raw);
      if (arguments_.loss && line.tokens.size() < 2)
        throw UsageError("--loss needs at least two bytes: the first is not predicted");
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("standard input:{}: {}", number, error.what()));
    }
    warn_of_unseen(line.tokens, number);
    try {
      return predict(line, layout, uint64_t(number - 1));
    } catch (const UsageError& error) {  // the line is more than the model can take
      throw UsageError(fmt::format("line {} of standard input: {}", number, error.what()));
    } catch (const Error& error) {
      throw Error(fmt::format("line {} of standard input: {}", number, error.what()));
    }
  }

 private:
  std::string predict(const Line& line, const PromptLayout& layout, uint64_t sample) {
    if (arguments_.loss && !arguments_.json)
      return fmt::format("{{\"loss\": {}}}", digits(decoder_.loss(line.tokens, sample)));
    Predictions predictions = arguments_.tokens > 0
                                  ? decoder_.write(layout.tokens, arguments_.tokens, -1, sample)
                                  : decoder_.answer(task_, layout, sample);
    const std::string logits =
        arguments_.logits ? "\"logits\": " + logits_json(predictions) : std::string();
    if (arguments_.logits && !arguments_.json) return "{" + logits + "}";

    std::vector<int32_t>& classes = predictions.classes;
    const bool writes = layout.outputs == 0;
    const bool ended = writes && !classes.empty() && classes.back() == spec_.end_token;
    if (ended) classes.pop_back();
    if (!arguments_.json) return line.text ? show_line(classes, outputs_) : joined(classes);

    std::string json = fmt::format("{{\"input\": [{}], \"predictions\": [{}]",
                                   joined(line.tokens, ", "), joined(classes, ", "));
    const std::optional<std::string> text = outputs_.alphabet.text(classes);
    if (!outputs_.alphabet.empty() && text && is_valid_utf8(*text))
      json += ", \"text\": " + nlohmann::json(*text).dump();
    if (writes && spec_.end_token >= 0) json += fmt::format(", \"ended\": {}", ended);
    if (arguments_.loss)
      json += fmt::format(", \"loss\": {}", digits(decoder_.loss(line.tokens, sample)));
    if (arguments_.logits) json += ", " + logits;
    return json + "}";
  }

  // Once for each id: what such an input gives is chance.
  void warn_of_unseen(const std::vector<int32_t>& tokens, int64_t number) {
    if (seen_.empty()) return;
    std::string names;
    for (const int32_t token : tokens)
      if (!seen_.contains(token) && told_.insert(token).second)
        names += (names.empty() ? "" : ", ") + inputs_.alphabet.name(token);
    if (!names.empty())
      log::warn("line {} of standard input has what the training data never held: {}", number,
                names);
  }

  const PredictArguments& arguments_;
  const Task& task_;
  TaskSpec spec_;
  Decoder decoder_;
  LineRules inputs_, outputs_;
  std::set<int32_t> seen_, told_;
};

}  // namespace

int predict_command(const PredictArguments& arguments) {
  set_threads(int(arguments.threads));
  const std::string& folder = arguments.run;
  check_trained(folder);
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.device.empty()) overrides.push_back("device.type=" + arguments.device);
  check_config(folder);
  const RunConfig config = load_run(folder + "/config.toml", overrides);
  BuiltModel built = build_model(config, false, nullptr, task_to_predict(folder, config));
  load_trained(folder, *built.encoder);
  LinePredictor predict(arguments, built, uint64_t(config.seed));

  const bool bytes = built.task->spec().bytes;  // a carriage return is a byte of the text
  std::string text;
  for (int64_t line = 1; std::getline(std::cin, text); ++line) {
    if (!bytes && !text.empty() && text.back() == '\r') text.pop_back();
    print("{}\n", predict(text, line));
    // Whoever writes lines one by one waits for the answer. A reader that is gone waits for
    // nothing.
    if (standard_output_error() != 0) return kExitFailed;
  }
  if (std::cin.bad() || std::ferror(stdin) != 0)
    throw Error("cannot read standard input: what followed has no answer");
  return kExitDone;
}

}  // namespace longshot
