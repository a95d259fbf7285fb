// [train]: how long, how fast, on which lengths.
#pragma once

#include <string>

#include "core/config.h"
#include "data/length_options.h"

namespace longshot {

struct TrainOptions {
  int64_t steps = 10000;
  int64_t batch = 128;
  int64_t accumulate = 1;
  double lr = 1e-3;
  int64_t warmup = 0;
  std::string schedule = "constant";
  double final_lr_fraction = 0.0;
  std::string optimizer = "adamw";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip = 1.0;
  double weight_decay = 0.0;
  double label_smoothing = 0.0;
  LengthOptions lengths;
  int64_t evaluate_every = 1000;
  int64_t checkpoint_every = 1000;
  int64_t patience = 0;
  double min_delta = 0.0;
  std::string keep = "last";
  std::string init_from;
  int64_t log_every = 100;

  void fields(FieldVisitor& visit) {
    visit.field("steps", steps, "optimizer steps; 0 evaluates the given weights", at_least(0));
    visit.field("batch", batch, "sequences a micro-batch", at_least(1));
    visit.field("accumulate", accumulate, "micro-batches an optimizer step", at_least(1));
    visit.field("lr", lr, "peak learning rate", at_least(0));
    visit.field("warmup", warmup, "steps over which the rate rises linearly to its peak",
                at_least(0));
    visit.field("schedule", schedule, "what the rate does after the warmup",
                one_of({"constant", "cosine", "linear", "inverse_sqrt"}));
    visit.field("final_lr_fraction", final_lr_fraction,
                "the rate at the last step over the peak, for cosine and linear", between(0, 1));
    visit.field("optimizer", optimizer,
                "adamw decays weights apart from the gradient, adam adds "
                "the decay to it",
                one_of({"adamw", "adam"}));
    visit.field("beta1", beta1, "decay of the gradient's mean", from_to_below(0, 1));
    visit.field("beta2", beta2, "decay of the gradient's square", from_to_below(0, 1));
    visit.field("epsilon", epsilon, "added to the root of the second moment", above(0));
    visit.field("clip", clip, "largest norm of the whole gradient; 0: not clipped", at_least(0));
    visit.field("weight_decay", weight_decay, "on matrices; never on biases, norms and scales",
                at_least(0));
    visit.field("label_smoothing", label_smoothing, "share of the target spread over all classes",
                from_to_below(0, 1));
    visit.table("lengths", lengths, "training lengths");
    visit.field("evaluate_every", evaluate_every,
                "steps between evaluations during training; 0: "
                "only at the end",
                at_least(0));
    visit.field("checkpoint_every", checkpoint_every,
                "steps between checkpoints; 0: only at the "
                "end",
                at_least(0));
    visit.field("patience", patience,
                "evaluations without improvement before an early stop; 0: "
                "never",
                at_least(0));
    visit.field("min_delta", min_delta, "what counts as an improvement of the loss", at_least(0));
    visit.field("keep", keep, "which parameters remain at the end", one_of({"last", "best"}));
    visit.field("init_from", init_from, "safetensors file to start from", file_path());
    visit.field("log_every", log_every, "steps between lines of metrics.jsonl", at_least(1));
  }
};

}  // namespace longshot
