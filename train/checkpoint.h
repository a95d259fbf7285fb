// Checkpoints. Two files in a run's folder:
//   checkpoint.safetensors       the parameters under their path names, with metadata that says how
//                                the model is built: what eval, predict and init_from read
//   training_state.safetensors   everything a resumed run needs, the parameters included: one file,
//                                so that a kill between two writes cannot leave halves of different
//                                steps; written last, so that a state that says "finished" stands
//                                beside the final parameters
// Both are written aside and renamed, hold their arrays by name and shape, and prove their contents
// by a hash (train/stored_tensors.h). docs/formats.md describes them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "nn/encoder.h"
#include "train/optimizer.h"

namespace longshot {

// What training remembers beside parameters and moments.
struct TrainingProgress {
  int64_t step = 0;                       // optimizer steps done
  double best_loss = 0;                   // the lowest in-range validation loss
  int64_t best_step = -1;                 // -1: no evaluation yet
  double patience_loss = 0;               // the loss that the next one must undercut by min_delta
  int64_t evaluations_since_best = 0;     // since one did
  int64_t updates = 0, updated_step = 0;  // updates made, and the last step seen to have made one
  int64_t metrics_bytes = 0;              // length of metrics.jsonl at this point
  int64_t timing_bytes = 0;
  std::vector<double> pending_losses;  // of steps since the last log line
  int64_t pending_tokens = 0;
  int64_t tokens = 0;                                           // seen so far
  double last_loss = std::numeric_limits<double>::quiet_NaN();  // of the last step that was read
  double seconds = 0;                                           // spent training, over all sessions
  bool evaluation_due = false;  // the evaluation of this step was put off by a stop request
  bool stopped_early = false;
  bool finished = false;  // training is over; only the final evaluation may be missing
  bool diverged = false;
};

void save_parameters(const std::string& path, const Encoder& encoder);
// Whether the file is there and holds what was written.
bool checkpoint_is_whole(const std::string& path);
// Reads names and shapes into the store; every tensor must be there with the right shape and none
// may be left over. F16, BF16 and F64 are converted, which the log says. A file written by
// save_parameters for another encoding, or the same encoding with options that change what the
// parameters mean, is refused, and so is one that was changed since. UsageError naming file and
// tensor.
void load_parameters(const std::string& path, Encoder& encoder);
// How the model in a checkpoint was built, from its metadata.
struct CheckpointModel {
  ConfigTable model, encoding, positions;
  EncoderInterface interface;
};
CheckpointModel read_checkpoint_model(const std::string& path);

// `identity` names the run (a hash of all that changes its trained bits): a state of another run is
// refused.
void save_training_state(const std::string& path, const ParameterStore& store,
                         const Optimizer& optimizer, const TrainingProgress& progress,
                         const std::string& identity);
TrainingProgress load_training_state(const std::string& path, ParameterStore& store,
                                     Optimizer& optimizer, const std::string& identity);

// SHA-256 of all parameters' bytes in the order of their names: equal runs have equal sums.
std::string parameters_sha256(const Encoder& encoder);

}  // namespace longshot
