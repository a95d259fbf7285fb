// The program `longshot`: parses the command line and calls one command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include "core/config.h"
#include "core/error.h"
#include "core/log.h"
#include "core/streams.h"
#include "experiments/commands.h"

namespace {

using namespace longshot;

// CONFIG... [key=value...]: what holds a '=' is an override, the rest are files.
void split_overrides(const std::vector<std::string>& words, std::vector<std::string>& files,
                     std::vector<std::string>& overrides) {
  for (const std::string& word : words)
    (word.find('=') == std::string::npos ? files : overrides).push_back(word);
}

int run(int argc, char** argv) {
  CLI::App app{"Longshot: train Transformers on short sequences, see what they do on longer ones."};
  app.set_version_flag("--version", std::string("longshot ") + LONGSHOT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  std::string device;
  int64_t threads = 0;
  app.add_option("--device", device, "auto, cpu, cuda or cuda:N")->type_name("DEVICE");
  app.add_option("--threads", threads,
                 "worker threads; 0: OMP_NUM_THREADS, else the processors this process may use")
      ->check(CLI::Range(0, 1024));

  RunArguments run;
  std::vector<std::string> run_words;
  CLI::App* run_app =
      app.add_subcommand("run", "train and evaluate a config, or every cell of its sweep");
  run_app->add_option("config", run_words, "config files, then key=value")->required();
  run_app->add_option("--out", run.out, "folder for results")->capture_default_str();
  run_app->add_option("--jobs", run.jobs, "cells side by side")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  run_app->add_flag("--dry-run", run.dry_run,
                    "list cells, their state and an estimate of the time");
  run_app->add_flag("--fail-fast", run.fail_fast, "stop at the first cell that fails");
  run_app->add_flag("--retry-failed", run.retry_failed, "run failed and diverged cells again");
  const auto no_locks = [](CLI::App* command, bool& flag) {
    command->add_flag("--no-locks", flag,
                      "for a file system without locks: one program at a time is your part");
  };
  no_locks(run_app, run.no_locks);
  run_app->add_option("--html", run.html, "where the report page goes; -: standard output");

  std::string cell_folder;
  CLI::App* cell_app = app.add_subcommand("cell", "")->group("");
  cell_app->add_option("folder", cell_folder)->required();
  bool cell_no_locks = false;
  no_locks(cell_app, cell_no_locks);

  EvalArguments eval;
  std::vector<std::string> eval_words;
  CLI::App* eval_app = app.add_subcommand(
      "eval", "evaluate a finished run again, with other lengths, scaling or positions");
  eval_app->add_option("run", eval_words, "a run folder, then key=value")->required();
  no_locks(eval_app, eval.no_locks);

  eval_app->add_option("--forget", eval.forget,
                       "remove a later evaluation by its label, or \"all\", instead of evaluating");

  PredictArguments predict;
  std::vector<std::string> predict_words;
  CLI::App* predict_app =
      app.add_subcommand("predict", "sequences on standard input, predictions on standard output");
  predict_app->add_option("run", predict_words, "a run folder, then key=value")->required();
  predict_app->add_flag("--logits", predict.logits, "every logit with all its digits");
  predict_app->add_flag("--json", predict.json,
                        "one object a line: input, predictions, text, and what else is asked for");
  predict_app->add_flag("--loss", predict.loss, "text: the loss of the line's own bytes");
  predict_app->add_option("--tokens", predict.tokens, "text: continue the line by so many bytes")
      ->check(CLI::Range(1, 100000000));
  predict_app
      ->add_option("--input", predict.input,
                   "how lines are read: ids, text, json, or auto, by the rule below")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "ids", "text", "json"}));
  predict_app->add_flag("--raw", predict.raw,
                        "add nothing of the task's: the lines are the model's whole input");
  predict_app->footer(
      "A line is one sequence. It is JSON when it begins with { (an object with \"input\", ids or "
      "a\n"
      "string), or with [ where that is no symbol of the task (a list of ids). It is ids when it "
      "is\n"
      "only digits and blanks, and the task has no characters or blanks stand between the digits\n"
      "and are no symbols. Everything else is text: `12` is two characters, `1 2` two ids; a "
      "model\n"
      "of text reads every line that is no object as text.");

  ReportArguments report;
  CLI::App* report_app = app.add_subcommand("report", "tables and pictures of finished runs");
  report_app->add_option("places", report.places,
                         "run folders, folders that hold them, CSV files of --csv");
  report_app->add_option("--html", report.html, "write a self-contained page; -: standard output");
  report_app->add_option("--csv", report.csv, "write every number, one a line; -: standard output");
  report_app->add_flag("--markdown", report.markdown, "tables as markdown");
  report_app
      ->add_option(
          "--matrix", report.matrix,
          "one markdown table, a row a task, a column an encoding: the scores beyond (mean, "
          "best) or in_range")
      ->check(CLI::IsMember({"mean", "best", "in_range"}));
  report_app->add_option(
      "--update", report.update,
      "markdown files whose tables between <!-- longshot report PLACE... --> and "
      "<!-- end of report --> are made anew");

  std::string list, list_name;
  CLI::App* list_app =
      app.add_subcommand("list", "tasks, encodings, positions and keys that there are");
  list_app->add_option("what", list, "tasks, encodings, positions or keys");
  list_app->add_option("name", list_name, "only this task, encoding or sampler");

  BenchArguments bench;
  std::vector<std::string> bench_words;
  CLI::App* bench_app = app.add_subcommand("bench", "time training steps of a config");
  bench_app->add_option("config", bench_words, "a config file, then key=value")->required();
  bench_app->add_option("--steps", bench.steps, "steps to time; 0: a few seconds' worth")
      ->check(CLI::Range(0, 1000000));
  bench_app->add_flag("--json", bench.json, "one JSON object");
  bench_app->add_flag("--profile", bench.profile,
                      "where a step's time goes, operation by operation");

  if (argc < 2) {
    say("{}", app.help());
    return 2;
  }
  if (argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const CLI::App* each : app.get_subcommands([](CLI::App*) { return true; }))
      names.push_back(each->get_name());
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      const std::string nearest = nearest_name(argv[1], names);
      throw UsageError(fmt::format("command line: there is no command \"{}\"; {}", argv[1],
                                   nearest.empty() ? "`longshot --help` lists them"
                                                   : fmt::format("did you mean \"{}\"?", nearest)));
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are no mistakes; everything else is bad usage.
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto one = [](const std::vector<std::string>& words, std::vector<std::string>& overrides,
                      const char* what) {
    std::vector<std::string> files;
    split_overrides(words, files, overrides);
    if (files.size() != 1)
      throw UsageError(
          fmt::format("command line: exactly one {} is needed, {} given", what, files.size()));
    return files.front();
  };
  if (run_app->parsed()) {
    split_overrides(run_words, run.configs, run.overrides);
    if (run.configs.empty()) throw UsageError("command line: no config file given");
    run.device = device;
    run.threads = threads;
    return run_command(run);
  }
  if (cell_app->parsed()) return cell_command(cell_folder, threads, cell_no_locks);
  if (eval_app->parsed()) {
    eval.run = one(eval_words, eval.overrides, "run folder");
    eval.device = device;
    eval.threads = threads;
    return eval_command(eval);
  }
  if (predict_app->parsed()) {
    predict.run = one(predict_words, predict.overrides, "run folder");
    predict.device = device;
    predict.threads = threads;
    return predict_command(predict);
  }
  if (report_app->parsed()) return report_command(report);
  if (bench_app->parsed()) {
    bench.config = one(bench_words, bench.overrides, "config");
    bench.device = device;
    bench.threads = threads;
    return bench_command(bench);
  }
  return list_command(list, list_name);
}

}  // namespace

int main(int argc, char** argv) {
  longshot::keep_standard_streams();
  // A file that may not grow is an error of the write, with a message, not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  longshot::log::initialize();
  try {
    const int code = run(argc, argv);
    if (const int error = longshot::standard_output_error(); error != 0) {
      longshot::say("longshot: cannot write to standard output: {}\n", std::strerror(error));
      return code == 0 ? 1 : code;
    }
    return code;
  } catch (const longshot::UsageError& error) {
    longshot::say("longshot: {}\n", error.what());
    return 2;
  } catch (const std::bad_alloc&) {  // where no work said what it was (while_doing)
    std::fprintf(stderr, "longshot: out of memory in `longshot %s`\n", argc > 1 ? argv[1] : "");
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    const int reason = error.code().value();
    longshot::say("longshot: {}: {}\n", error.path1().string(), error.code().message());
    return reason == ENAMETOOLONG || reason == ELOOP || reason == ENOENT || reason == ENOTDIR ? 2
                                                                                              : 1;
  } catch (const std::exception& error) {
    longshot::say("longshot: {}\n", error.what());
    return 1;
  }
}
