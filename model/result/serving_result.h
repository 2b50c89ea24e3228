// What serving a model on a deployment costs in its steady state: times, rates, space for keys and values, money.
// Names are those of vLLM, SGLang and TensorRT-LLM: TTFT is the time to the first token, TPOT the time per output token
// after it, ISL and OSL the lengths of inputs and outputs, concurrency the requests in flight.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/provenance.h"
#include "model/result/prediction_interval.h"
#include "model/result/result.h"

namespace plumbline::model {

// What more of would make a step faster or the deployment serve more requests.
enum class ServingBound : std::uint8_t { weights, kv, compute, links, latency, host };
std::string_view to_string(ServingBound bound);

// A part of a step: seconds of one section of the layers ("attention", "dispatch") on the critical path.
struct ServingPart {
  std::string name;
  double seconds = 0;
  double hidden_s = 0;  // seconds that run while another part does
  ServingBound bound = ServingBound::latency;
};

// The GPUs of one phase; without disaggregation one pool has both.
struct ServingPool {
  std::string name;  // "prefill", "decode", or "both"
  std::int64_t gpus = 0, instances = 0, gpus_per_instance = 0;
  std::int64_t tensor = 1, pipeline = 1, expert = 1, attention_data = 1, redundant_experts = 0;
  double step_s = 0;               // of one pass of an instance over its requests
  double tokens_per_step = 0;      // of an instance
  double batch_per_gpu = 0;        // requests
  std::vector<ServingPart> parts;  // their seconds add up to step_s
  // Of the fullest GPU.
  double weights_bytes = 0, reserve_bytes = 0, activations_bytes = 0, kv_bytes = 0, capacity_bytes = 0;
  double kv_capacity_tokens = 0;  // of an instance
  ServingBound bound_by = ServingBound::latency;
};

// A deployment at a number of requests in flight: interactivity is 1 / tpot_s tokens per second and user.
struct ServingPoint {
  double concurrency = 0, batch_per_gpu = 0;
  double tpot_s = 0, ttft_unloaded_s = 0;
  double output_tokens_per_s_per_gpu = 0;
  std::optional<double> usd_per_million_output_tokens;
  bool within_limits = true;
  bool dominated = false;  // another point has no longer TPOT and no fewer tokens/s, and one of them better
  double ttft_s = 0;       // at that load
};

struct ServingInterval {
  std::optional<Quantiles> tpot_s, ttft_unloaded_s, output_tokens_per_s_per_gpu, usd_per_million_output_tokens, ttft_s;
  std::vector<IntervalPart> parts;           // shares of the variance of TPOT
  std::optional<double> limits_probability;  // that TPOT and TTFT keep inference.max_tpot_s and max_ttft_s
};

struct ServingResult {
  double concurrency = 0;      // requests in flight, those in prefill included
  double batch_per_gpu = 0;    // requests that decode, per GPU that decodes
  double tpot_s = 0;           // prefill of other requests in the same steps included
  double ttft_unloaded_s = 0;  // of a request that waits for nothing: a lower bound
  double ttft_s = 0;           // in the mean of the requests in flight: a queue, and the pass of the prompt
  double itl_worst_s = 0;      // the longest step: with a whole chunk of a prompt
  double output_tokens_per_s = 0, output_tokens_per_s_per_gpu = 0;  // over all GPUs of the deployment
  double input_tokens_per_s_per_gpu = 0;                            // hits of the prefix cache included
  double output_tokens_per_s_per_node = 0;
  double decode_step_s = 0;                 // one step of the decoding pool, without prefill
  double tokens_per_step = 1;               // of a request: more than 1 where tokens are speculated
  double prefill_tokens_per_s_per_gpu = 0;  // computed tokens, of GPUs that do nothing else
  double kv_bytes_per_token = 0;            // of all layers on all ranks of an instance, each stored once
  double kv_capacity_tokens = 0;            // of the deployment
  double state_bytes_per_request = 0;       // of recurrent layers likewise, whatever the context
  double most_concurrency = 0;              // requests whose keys and values fit
  ServingBound bound_by = ServingBound::latency;
  // USD per million output tokens has three readings. The first, which is meant where no other is named, is of the GPU
  // time that decodes; the second, with prompts, is of all GPUs; the third, of the demand, is of the whole GPUs that
  // inference.demand_output_tokens_per_day takes, busy or not. Each is over the output tokens alone.
  std::optional<double> usd_per_million_output_tokens, usd_per_million_tokens_all_in,
      usd_per_million_output_tokens_of_demand;
  std::optional<double> usd_per_million_input_tokens;  // of the GPU time that prefills
  std::int64_t prefill_gpus = 0, decode_gpus = 0;      // without disaggregation both are all GPUs
  std::vector<ServingPool> pools;
  std::vector<ServingPoint> frontier;  // by growing concurrency
  std::optional<double> demand_gpus;   // for inference.demand_output_tokens_per_day
  std::optional<double> demand_prefill_gpus, demand_decode_gpus;
  std::optional<ServingInterval> interval;
  std::vector<Parameter> constants;  // that the answer rests on
  std::vector<std::string> notes;    // sentences: what is a bound, what the engine leaves out
  std::vector<AssumedKey> assumed;   // those that the plan leaves open and that move the time per output token
  // That an instance starts and holds a request at the mean context, which is when the engine runs; further requests
  // wait. Nothing: not drawn.
  std::optional<double> fits_probability;
};

// Returns the memory of the fullest GPU of all pools, without ranks.
Memory memory_of(const ServingResult& result);

}  // namespace plumbline::model
