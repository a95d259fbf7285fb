// One run: build task and model from a RunConfig, train, evaluate, write the result into its
// folder.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/context.h"
#include "data/task.h"
#include "experiments/schema.h"
#include "experiments/summary.h"
#include "nn/encoder.h"

namespace longshot {

// Exit codes of the program.
constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 2, kExitDiverged = 3, kExitStopped = 75;
// Never the program's own: what a cell tells its sweep. Another process works on it; the disk is
// full, read-only or failing, which is no fault of the cell.
constexpr int kExitBusy = 4, kExitDisk = 5;

// A task and a model on a device, as a config describes them.
struct BuiltModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Context> context;
  std::unique_ptr<Task> task;
  std::unique_ptr<Encoder> encoder;
};
// `log_choice`: say which device was chosen and why. `wrap`: what to put around the backend (a
// profiler). `task`: instead of one made from the config.
using BackendWrapper = std::unique_ptr<Backend> (*)(std::unique_ptr<Backend>);
BuiltModel build_model(const RunConfig& config, bool log_choice = true,
                       BackendWrapper wrap = nullptr, std::unique_ptr<Task> task = nullptr);
EncoderInterface interface_of(const Task& task, const RunConfig& config);

struct CellRun {
  RunConfig config;
  std::string identity;
  std::vector<std::pair<std::string, std::string>> axes;  // what the sweep varies, as text
  std::string folder;                                     // exists
  std::string study, cell;
};

// Trains from where the folder's state is, evaluates, writes summary.json. Returns an exit code;
// failures are logged and written to status.json. FileError where the disk fails (of_the_disk): the
// cell is interrupted then, not failed. The caller has installed a SignalScope.
struct CellDisplay {
  bool progress = true;  // a line that moves on a terminal, a line every few seconds elsewhere
  std::string label;     // which cell this is, for those lines; "": the only one
};
int run_cell(const CellRun& run, const CellDisplay& display = {});
// Whether the training state in the folder, if any, can be gone on from. Logs why not.
bool can_resume(const CellRun& run);
// Everything run_cell needs, in a folder: config.toml and cell.json. Sweeps hand cells to child
// processes so.
void write_cell(const CellRun& run);
CellRun read_cell(const std::string& folder);
// UsageError when config.toml is no longer what write_cell wrote, as far as cell.json knows: its
// keys decide what eval and reports say of the run.
void check_config(const std::string& folder);
// The parameters in the folder's checkpoint; of a finished run they must be those of its summary.
void load_trained(const std::string& folder, Encoder& encoder);

// A name for tables and curves: the encoding's type, with the sampler's unless contiguous.
std::string encoding_label(const RunConfig& config);

}  // namespace longshot
