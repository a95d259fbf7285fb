// Adam and AdamW on a model's flat buffers: clip by the global norm, then one pass over everything.
// All state that decides the next update lives in device memory (UpdateState).
//
// AdamW: Loshchilov and Hutter 2019. Adam: Kingma and Ba 2015, weight decay added to the gradient.
#pragma once

#include <cstdint>

#include "core/backend.h"
#include "core/context.h"
#include "nn/parameter_store.h"
#include "train/train_options.h"

namespace longshot {

class Optimizer {
 public:
  Optimizer(ParameterStore& store, const TrainOptions& options);

  // Uses context.step_state()'s learning rate and target count. A norm that is not finite or no
  // counted target skips the update and does not advance Adam's step.
  void update();

  UpdateState state() const;  // waits for the device
  void set_state(const UpdateState& state);
  void save_best();  // keeps a copy of the parameters; restore_best() puts it back
  void restore_best();
  const Tensor& best() const { return best_; }  // undefined until save_best()

 private:
  ParameterStore& store_;
  TrainOptions options_;
  Tensor state_;  // device memory holding one UpdateState
  Tensor best_;
  friend class Checkpoint;
};

}  // namespace longshot
