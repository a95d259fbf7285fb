#include "train/optimizer.h"

namespace longshot {

Optimizer::Optimizer(ParameterStore& store, const TrainOptions& options)
    : store_(store), options_(options) {
  static_assert(sizeof(UpdateState) % sizeof(int32_t) == 0);
  state_ = store.context().make({int64_t(sizeof(UpdateState) / sizeof(int32_t))}, DType::i32,
                                Lifetime::persistent, "update state");
  set_state({});
}

void Optimizer::update() {
  Context& context = store_.context();
  ClipArgs clip;
  clip.dtype = context.dtype();
  clip.n = store_.elements();
  clip.gradient = store_.gradients().data();
  clip.max_norm = options_.clip;
  clip.state = context.step_state();
  clip.update = static_cast<UpdateState*>(state_.data());
  context.backend().clip(clip);

  AdamArgs adam;
  adam.dtype = context.dtype();
  adam.n = store_.elements();
  adam.decayed = store_.decayed_elements();
  adam.parameter = store_.parameters().data();
  adam.gradient = store_.gradients().data();
  adam.first_moment = store_.first_moments().data();
  adam.second_moment = store_.second_moments().data();
  adam.beta1 = options_.beta1;
  adam.beta2 = options_.beta2;
  adam.epsilon = options_.epsilon;
  adam.weight_decay = options_.weight_decay;
  adam.coupled = options_.optimizer == "adam";
  adam.state = context.step_state();
  adam.update = clip.update;
  context.backend().adam(adam);
}

UpdateState Optimizer::state() const {
  UpdateState result;
  store_.context().backend().copy_to_host(&result, state_.data(), sizeof result);
  return result;
}

void Optimizer::set_state(const UpdateState& state) {
  store_.context().backend().copy_to_device(state_.data(), &state, sizeof state);
}

void Optimizer::save_best() {
  if (!best_.defined()) {
    best_ = store_.context().make({store_.elements()}, store_.context().dtype(),
                                  Lifetime::persistent, "best parameters");
  }
  store_.context().backend().copy_on_device(best_.data(), store_.parameters().data(),
                                            size_t(store_.elements() * size_of(best_.dtype())));
}

void Optimizer::restore_best() {
  if (!best_.defined()) return;
  store_.context().backend().copy_on_device(store_.parameters().data(), best_.data(),
                                            size_t(store_.elements() * size_of(best_.dtype())));
}

}  // namespace longshot
