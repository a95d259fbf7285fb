// The step's state on both devices, and a dropout that reads it.
#pragma once

#include "tests/cuda/devices.h"

namespace longshot::test {

inline Devices::Buffer step_state(Devices& d, uint32_t training, double count = 3,
                                  float learning_rate = 0.01f) {
  StepState state;
  state.seed = 0x123456789ABCDEFull;
  state.step = 17;
  state.training = training;
  state.sample_offset = 2;
  state.target_count = count;
  state.learning_rate = learning_rate;
  return d.put(std::vector<StepState>{state});
}
inline DropoutSpec drop_out(const Devices::Buffer& state, int side, float p) {
  DropoutSpec dropout;
  dropout.p = p;
  dropout.stream = 5;
  dropout.elements_per_sample = 11;
  dropout.state = static_cast<const StepState*>(state[side]);
  return dropout;
}

}  // namespace longshot::test
