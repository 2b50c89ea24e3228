// What a model is: parameters and FLOPs, counted from the same operator graphs that are simulated.
#pragma once

#include "model/architecture/architecture.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"

namespace plumbline::model {

struct ModelMetrics {
  double parameters = 0;             // without multi-token prediction
  double active_parameters = 0;      // that one token uses (of an untied embedding its row), without the same
  double embedding_parameters = 0;   // of those: token table, learned positions and an untied output projection
  double prediction_parameters = 0;  // of the multi-token-prediction modules, without what they share
  // Training FLOPs per token (forward and backward, no recomputation): all matrix parameters including
  // router and head, without embedding and multi-token prediction; attention in full or causal.
  double flops_per_token = 0;
  double flops_per_token_causal = 0;
};

// For one sequence length. Independent of any parallelism.
ModelMetrics model_metrics(const Architecture& architecture, std::int64_t sequence_length);

// Bytes of keys and values (or of the latent that stands for them) that one token leaves in the cache, all layers.
double key_value_bytes_per_token(const Architecture& architecture, double bytes_per_element);

}  // namespace plumbline::model
