// The program's commands. Each takes its parsed arguments and returns an exit code; mistakes throw
// UsageError.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace longshot {

struct RunArguments {
  std::vector<std::string> configs, overrides;
  std::string out = "runs";
  std::string device;  // "": as the config says
  int64_t jobs = 1;
  int64_t threads = 0;  // 0: all processors, divided by jobs
  bool dry_run = false, fail_fast = false, retry_failed = false;
  bool no_locks = false;  // for file systems that have none
  std::string html;       // where the report page goes; "": <out>/<study>/report.html
};
int run_command(const RunArguments& arguments);

// One prepared cell folder: what `run --jobs` starts as child processes. Not for people.
int cell_command(const std::string& folder, int64_t threads, bool no_locks);

struct EvalArguments {
  std::string run;
  std::string forget;  // label of a later evaluation to remove, or "all"; "": evaluate
  std::vector<std::string> overrides;
  std::string device;
  int64_t threads = 0;
  bool no_locks = false;
};
int eval_command(const EvalArguments& arguments);

struct PredictArguments {
  std::string run;
  std::string device;
  int64_t threads = 0;
  std::string input = "auto";  // how lines are read: auto, ids, text, json
  bool json = false;           // one object a line
  bool logits = false;         // every logit with round-trip digits
  bool loss = false;           // text: of the line itself
  bool raw = false;            // take the sequences as the model's whole input: add nothing
  int64_t tokens = 0;          // text: continue by so many bytes
  std::vector<std::string> overrides;
};
int predict_command(const PredictArguments& arguments);

struct ReportArguments {
  std::vector<std::string> places;  // folders and CSV files
  std::set<std::string> config;     // identities of the config's cells; empty: every cell
  std::string html, csv, matrix;    // files: as write_named_file() takes them
  bool page_by_the_way = false;     // nobody asked for html: without the right to write, a warning
  bool markdown = false;
  std::vector<std::string> update;  // markdown files
};
int report_command(const ReportArguments& arguments);

// `name`: of one task, encoding or sampler; "": all.
int list_command(const std::string& what, const std::string& name = "");

struct BenchArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string device;
  int64_t threads = 0;
  int64_t steps = 0;  // 0: enough for a few seconds
  bool json = false;
  bool profile = false;  // where the time goes, operation by operation
};
int bench_command(const BenchArguments& arguments);

}  // namespace longshot
