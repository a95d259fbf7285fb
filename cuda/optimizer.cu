// Gradient clipping and AdamW over the flat buffers. Everything that changes from step to step is
// read from device memory, and the decision to skip is taken there too.
//
// AdamW (Loshchilov & Hutter 2019): two kernels. The first, one thread, works out the bias
// corrections for t = adam_step + 1 and advances the counters; the second updates the elements.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct SquareTerm {
  const float* gradient;
  __device__ void operator()(int64_t i, double& sum, double&) const {
    sum += double(gradient[i]) * double(gradient[i]);
  }
};
struct DecideClip {
  double max_norm;
  const StepState* state;
  UpdateState* update;
  __device__ void operator()(double squared_norm, double) const {
    const double norm = sqrt(squared_norm);
    const bool finite = norm < double(INFINITY);  // false for NaN too
    update->squared_norm = squared_norm;
    update->scale = finite && max_norm > 0 && norm > max_norm ? float(max_norm / norm) : 1.0f;
    update->skip = !finite || (state && state->target_count == 0) ? 1u : 0u;
  }
};

// context.scalars: [0] 1 if the step is skipped, [1] 1 / (1 - beta1^t), [2] 1 / (1 - beta2^t)
struct PrepareAdam {
  double beta1, beta2;
  UpdateState* update;
  double* scalars;
  __device__ void operator()(int64_t) const {
    scalars[0] = update->skip ? 1.0 : 0.0;
    if (update->skip) {
      ++update->skipped_steps;
      return;
    }
    const double t = double(++update->adam_step);
    scalars[1] = 1.0 / (1.0 - pow(beta1, t));
    scalars[2] = 1.0 / (1.0 - pow(beta2, t));
  }
};
struct AdamElement {
  int64_t decayed;
  float *parameter, *first, *second;
  const float* gradient;
  float beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon, weight_decay;
  bool coupled;
  const StepState* state;
  const UpdateState* update;
  const double* scalars;
  __device__ void operator()(int64_t i) const {
    if (scalars[0] != 0) return;
    const float correction1 = float(scalars[1]), correction2 = float(scalars[2]);
    const float p = parameter[i], decay = i < decayed ? weight_decay * p : 0.0f;
    float g = update->scale * gradient[i];
    if (coupled) g += decay;
    const float m = beta1 * first[i] + one_minus_beta1 * g;
    const float v = beta2 * second[i] + one_minus_beta2 * g * g;
    first[i] = m;
    second[i] = v;
    const float direction = m * correction1 / (sqrtf(v * correction2) + epsilon);
    parameter[i] = p - state->learning_rate * (coupled ? direction : decay + direction);
  }
};

}  // namespace

void clip(const Context& context, const ClipArgs& args) {
  sum_all(context, "clip", args.n, SquareTerm{f32(args.gradient)},
          DecideClip{args.max_norm, args.state, args.update});
}

void adam(const Context& context, const AdamArgs& args) {
  map(context, "adam", 1, PrepareAdam{args.beta1, args.beta2, args.update, context.scalars});
  map(context, "adam", args.n,
      AdamElement{args.decayed, f32(args.parameter), f32(args.first_moment),
                  f32(args.second_moment), f32(args.gradient), float(args.beta1), float(args.beta2),
                  float(1 - args.beta1), float(1 - args.beta2), float(args.epsilon),
                  float(args.weight_decay), args.coupled, args.state, args.update,
                  context.scalars});
}

}  // namespace longshot::cuda
