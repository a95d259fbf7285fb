// `longshot predict RUN`: sequences on standard input, predictions (or exact logits) on standard
// output.
//
// A line is one sequence:
//   3 1 4 1 5            token ids, separated by blanks
//   abba                 characters, for tasks whose tokens have characters (models of bytes:
//   always)
//   {"input": [3, 1]}    a JSON object; "input" is a list of ids or a string
// Output, one line a sequence: predicted classes as ids (as characters when the input was
// characters), or with
// --logits a JSON object {"logits": [[...], ...]} with round-trip digits.
#include <algorithm>
#include <fmt/core.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "experiments/commands.h"
#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "experiments/run_folder.h"
#include "train/checkpoint.h"

namespace longshot {
namespace {

struct Sequence {
  std::vector<int32_t> tokens;
  bool characters = false;
};

[[noreturn]] void bad_line(int64_t line, const std::string& reason) {
  throw UsageError(fmt::format("standard input:{}: {}", line, reason));
}

std::vector<int32_t> from_characters(const std::string& text, const TaskSpec& spec, int64_t line) {
  std::vector<int32_t> tokens;
  for (const char c : text) {
    if (spec.bytes) {
      tokens.push_back(static_cast<unsigned char>(c));
      continue;
    }
    const size_t found = spec.input_symbols.find(c);
    if (spec.input_symbols.empty() || found == std::string::npos) {
      bad_line(line, fmt::format("'{}' is not one of this task's symbols ({})", c,
                                 spec.input_symbols.empty() ? "it has none: give token ids"
                                                            : spec.input_symbols));
    }
    tokens.push_back(int32_t(found));
  }
  return tokens;
}

Sequence parse_line(const std::string& text, const TaskSpec& spec, int64_t line) {
  Sequence sequence;
  const size_t first = text.find_first_not_of(" \t");
  if (first != std::string::npos && text[first] == '{') {
    try {
      const auto json = nlohmann::json::parse(text);
      const auto& input = json.at("input");
      if (input.is_string()) {
        sequence.characters = true;
        sequence.tokens = from_characters(input.get<std::string>(), spec, line);
      } else {
        if (!input.is_array())
          bad_line(line, "\"input\" is neither a list of token ids nor a string");
        for (const auto& token : input) {
          if (!token.is_number_integer() || token.get<int64_t>() != int32_t(token.get<int64_t>()))
            bad_line(line, fmt::format("{} is no token id", token.dump()));
          sequence.tokens.push_back(token.get<int32_t>());
        }
      }
    } catch (const nlohmann::json::exception& error) {
      bad_line(line, fmt::format("not an object with \"input\" ({})", error.what()));
    }
  } else {
    // Ids when every word is a number, characters otherwise. Digits alone that are symbols of the
    // task and stand together ("0110") are characters as well: ids need blanks between them.
    std::istringstream words(text);
    std::vector<std::string> parts;
    for (std::string word; words >> word;) parts.push_back(word);
    const bool numbers = std::all_of(parts.begin(), parts.end(), [](const std::string& word) {
      return word.find_first_not_of("0123456789") == std::string::npos && word.size() < 10;
    });
    const bool one_word = parts.size() == 1 && parts[0].size() > 1 && !spec.input_symbols.empty();
    if (numbers && !one_word && !spec.bytes) {
      for (const std::string& word : parts) sequence.tokens.push_back(int32_t(std::stol(word)));
    } else {
      sequence.characters = true;
      sequence.tokens = from_characters(spec.bytes          ? text
                                        : parts.size() == 1 ? parts[0]
                                                            : text,
                                        spec, line);
    }
  }
  if (sequence.tokens.empty()) bad_line(line, "an empty sequence");
  for (const int32_t token : sequence.tokens) {
    if (token < 0 || token >= spec.input_vocabulary)
      bad_line(line,
               fmt::format("token id {} is outside 0 .. {}", token, spec.input_vocabulary - 1));
  }
  return sequence;
}

}  // namespace

int predict_command(const PredictArguments& arguments) {
  set_threads(int(arguments.threads));
  const std::string& folder = arguments.run;
  check_trained(folder);
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.device.empty()) overrides.push_back("device.type=" + arguments.device);
  check_config(folder);
  const RunConfig config = load_run(folder + "/config.toml", overrides);
  BuiltModel built = build_model(config, false);
  load_trained(folder, *built.encoder);
  const TaskSpec spec = built.task->spec();
  Context& context = *built.context;

  std::string text;
  int64_t line = 0;
  for (uint64_t index = 0; std::getline(std::cin, text); ++index) {
    ++line;
    if (!text.empty() && text.back() == '\r') text.pop_back();
    Sequence sequence = parse_line(text, spec, line);
    std::vector<int32_t>& tokens = sequence.tokens;
    const int64_t given = int64_t(tokens.size());
    int64_t begin = 0, outputs = given;
    if (spec.output == Output::placeholders && !arguments.raw) {
      outputs = built.task->output_length(given);
      tokens.insert(tokens.end(), size_t(outputs), int32_t(spec.placeholder_token));
      begin = given;
    } else if (spec.output == Output::first_token || spec.output == Output::mean) {
      outputs = 1;
    }

    StepScope step(context);
    NoRecordingScope no_recording(context);
    StepState state;
    state.seed = uint64_t(config.seed);
    context.set_step_state(state);
    EncoderInput input;
    input.batch = 1;
    input.length = int64_t(tokens.size());
    input.tokens = tokens;
    input.output_begin = begin;
    input.outputs = outputs;
    input.seed = uint64_t(config.seed);
    input.first_sample = int64_t(index);
    Tensor logits;
    try {
      logits = built.encoder->forward(built.encoder->prepare(input));
    } catch (const Error& error) {  // a sequence beyond what the encoding reaches
      bad_line(line, error.what());
    }
    if (arguments.logits) {
      const std::vector<float> values = logits.to_host<float>();
      fmt::print("{{\"logits\": [");
      for (int64_t k = 0; k < outputs; ++k) {
        fmt::print("{}[", k == 0 ? "" : ", ");
        for (int64_t c = 0; c < spec.output_classes; ++c)
          fmt::print("{}{}", c == 0 ? "" : ", ", values[size_t(k * spec.output_classes + c)]);
        fmt::print("]");
      }
      fmt::print("]}}\n");
      continue;
    }
    const std::vector<int32_t> best = ops::argmax(logits).to_host<int32_t>();
    std::string out;
    for (const int32_t each : best) {
      if (sequence.characters && size_t(each) < spec.output_symbols.size()) {
        out += spec.output_symbols[size_t(each)];
      } else {
        out += (out.empty() ? "" : " ") + std::to_string(each);
      }
    }
    fmt::print("{}\n", out);
  }
  return kExitDone;
}

}  // namespace longshot
