// One pool of GPUs of a deployment: what a step of its instances takes by batch, and what its GPUs hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/memo.h"
#include "model/plan/instance.h"
#include "sim/serving/pass_costs.h"

namespace plumbline::sim {

enum class PassPart : std::uint8_t {
  embedding,
  attention,
  dispatch,
  shared_experts,
  mlp,
  combine,
  collectives,
  head,
  speculation,
  pipeline,
  host
};
std::string_view to_string(PassPart part);

// A pass of an instance through all of its stages, or a mean of such.
struct PassTime {
  static constexpr std::size_t parts = 11;
  struct Part {
    BoundSeconds seconds;  // on the critical path
    double hidden = 0;     // seconds that run while another part does
  };
  std::array<Part, parts> by{};     // [PassPart]
  double seconds = 0, longest = 0;  // of all parts; of the slowest stage, after which the next pass can follow
  double core_attention = 0;        // of the seconds, in kernels over keys and values

  Part& operator[](PassPart part) { return by[static_cast<std::size_t>(part)]; }
  BoundSeconds bounds() const;  // of all parts
  PassTime& operator+=(const PassTime& other);
  friend PassTime operator*(PassTime time, double factor);
};

struct MeanRequest {  // tokens
  double input = 0, output = 0;
  double context = 0;  // mean tokens in the cache while it decodes
};
// Returns the means of the plan's requests; those of a file of lengths are weighed by the tokens that they make.
MeanRequest mean_request(const model::Plan& plan);

struct PoolMemory {  // bytes of the fullest GPU
  double weights = 0, reserve = 0, activations = 0, capacity = 0;
  double space = 0;                    // for keys, values and states
  double keys_values = 0, states = 0;  // of a request, at the mean context
  double kept = 0;                     // the same with what the engine keeps for its tokens yet to come
  double longest = 0;                  // keys and values of the longest request at its end
  double states_per_request = 1;       // that are kept: one, and one for each token that may be rejected

  double bytes_per_request() const { return kept + states * states_per_request; }
};

// A prompt in passes; a rank that has requests of its own computes `tokens` in each.
struct PrefillPass {
  PassTime time;
  double tokens = 0;    // computed, of all requests of the pass
  double launches = 0;  // seconds of the host to launch the kernels of such a pass one by one
};

// It has times by the requests of a rank, which is a group of `tensor` GPUs of each stage. Decode steps are padded to
// the batches whose CUDA graphs the engine has; times between these, or else between whole numbers, above 8 between
// four numbers in each octave, are interpolated. Safe for several threads.
class PoolModel {
 public:
  // Errors: degrees that do not divide, weights that do not fit, no space for one request, constants that the profile
  // lacks. `costs` must outlive the model.
  static model::Result<std::shared_ptr<const PoolModel>> make(const Inputs& inputs, const PassCosts& costs,
                                                              const model::Plan& plan, model::PoolKind kind);

  // Returns a decode step of `batch` requests on each rank. None is shorter than what another process takes to send its
  // tokens to clients, which the engine itself does not wait for.
  PassTime step(double batch) const;
  double step_seconds(double batch) const;
  double engine_step_seconds(double batch) const;
  // Returns the requests of one decode step of a rank that has `batch`: those of a stage's group.
  double requests_of_step(double batch) const { return std::max(1.0, batch / groups(batch)); }
  // Returns the pass of a pool that prefills as many tokens as its steps take, and the seconds of one prompt alone.
  const PrefillPass& prefill() const { return prefill_; }
  double prefill_seconds_per_token() const { return prefill_.time.longest / prefill_.tokens; }
  // Returns a pass of `prompts` prompts, or chunks, on each rank; with fewer than one that share of the ranks has one.
  // A pass has at most prompts_of_pass().
  PassTime prompt_pass(double prompts) const;
  // Returns its seconds after which another can follow.
  double prompt_pass_seconds(double prompts) const;
  double prompts_of_pass() const { return static_cast<double>(prefill_shape_.requests); }
  // Returns the seconds of a pass of a prompt after which other passes can follow it.
  double pass_latency() const { return one_prompt_.seconds - one_prompt_.longest; }
  // Returns the seconds by which `prompts` prompts, or chunks of them, on a `share` of the ranks lengthen a decode step
  // of `batch` requests on each. GEMMs have rows of both and read weights once where the engine computes them in one
  // step. Ranks that share experts wait for each other.
  double added_seconds(double batch, double prompts, double share) const;
  // Returns whether prompts join the steps of requests that decode.
  bool mixes_prompts() const { return plan_.inference.mixed_chunks.value_or(costs_.mixes_prompts()); }
  // Returns the prompts, or chunks of them, for which a step has tokens that also decodes `batch` requests of each
  // rank; at least one.
  double prompts_of_step(double batch) const;
  double tokens_of_chunk() const { return static_cast<double>(prompt_shape(1).new_tokens); }  // of one prompt
  double prompt_seconds() const { return prompt_seconds_; }
  // Returns the constants of the profile that steps of about `batch` requests depend on.
  std::vector<std::int32_t> constants(double batch) const;

  const PassCosts& costs() const { return costs_; }
  model::PoolKind kind() const { return kind_; }
  const model::Instance& instance() const { return instance_; }
  const MeanRequest& request() const { return request_; }
  const PoolMemory& memory() const { return memory_; }
  // Fails as infeasible where the longest request outgrows the space before its end.
  model::Result<void> check_longest(const Inputs& inputs) const;
  double requests_per_rank() const;                            // for which there is space, and that the scheduler runs
  bool scheduler_binds() const;                                // the latter are fewer
  double tokens_per_step() const { return tokens_per_step_; }  // of a request
  // Returns the tokens that a step has for prompts while it decodes `batch` requests of each rank.
  double prompt_tokens(double batch) const;
  double chunks() const { return static_cast<double>(chunks_); }  // of a prompt

 private:
  struct Stage {
    std::map<model::BlockKind, std::int64_t> blocks;
    std::int64_t alike = 1;
  };

  PoolModel(const PassCosts& costs, const model::Plan& plan, model::PoolKind kind, const model::Instance& instance)
      : costs_(costs), plan_(plan), kind_(kind), instance_(instance) {}

  void find_stages(const model::Architecture& architecture);
  void find_draft(const model::Architecture& architecture);
  model::Result<void> find_memory(const Inputs& inputs);
  double memory_share() const;
  double usable() const;  // bytes for weights, keys and values
  std::vector<PassShape> largest_passes() const;
  double runs_at_most(double requests) const;
  double kept_tokens() const;  // of a request, for which the engine keeps space in the mean
  struct Held {
    double weights = 0, keys_values = 0, kept = 0, longest = 0, states = 0;
  };
  Held held(const Stage& stage) const;
  model::Error no_space_for_weights(const Inputs& inputs) const;
  // `tokens` have so many bytes of `keys_values`.
  model::Error no_space_for_request(const Inputs& inputs, double tokens, double keys_values) const;
  void find_prefill();
  // With as many rows as requests, or with those of a captured batch.
  PassShape decode_shape(std::int64_t requests, std::int64_t rows = 0) const;
  double decode_rows(double batch) const { return batch * static_cast<double>(1 + plan_.inference.speculative_tokens); }
  PassShape prompt_shape(std::int64_t requests, std::int64_t chunks) const;
  PassShape prompt_shape(std::int64_t requests) const { return prompt_shape(requests, chunks_); }
  PassShape draft_shape(PassShape shape) const;
  std::shared_ptr<const BlockCost> block(const PassShape& shape, model::BlockKind kind) const;
  PassTime layer(const PassShape& shape, model::BlockKind kind) const;
  PassTime pass(const PassShape& shape) const;
  PassTime draft_time(const PassShape& shape) const;
  double launch_seconds(const PassShape& shape) const;
  std::shared_ptr<const PassTime> at(std::int64_t requests, std::int64_t rows) const;
  struct Linear {  // seconds of a pass besides attention over keys and values: a rank's own, and of shared experts
    double own = 0, experts = 0;
  };
  Linear linear(double tokens) const;
  double linear_seconds(double tokens, double tokens_of_experts) const;
  struct Between {
    std::int64_t below, above;
    double share;           // of `above`
    std::int64_t rows = 0;  // of both, where a decode step is padded
  };
  static Between between(double requests);
  Between in_decode(double requests) const;
  double groups(double batch) const;

  const PassCosts& costs_;
  model::Plan plan_;
  model::PoolKind kind_;
  model::Instance instance_;
  MeanRequest request_;
  PassCosts::Communication transfers_;
  std::vector<Stage> stages_;
  struct Draft {
    PassModel model = PassModel::served;
    std::map<model::BlockKind, std::int64_t> blocks;  // none where nothing, or no model, speculates
  };
  Draft draft_;
  double tokens_per_step_ = 1, chunk_ = 0;
  std::int64_t chunks_ = 1;  // passes of a prompt
  PassShape prefill_shape_;
  PrefillPass prefill_;
  PassTime one_prompt_;      // on each rank
  double lone_seconds_ = 0;  // after which another pass can follow that of a prompt on one rank
  double prompt_seconds_ = 0;
  PoolMemory memory_;
  double rest_of_prompt_ = 0;  // seconds of a pass of one prompt besides linear(): attention, a cached prefix
  mutable model::Memo<std::pair<std::int64_t, std::int64_t>, std::shared_ptr<const PassTime>> steps_;
  mutable model::Memo<std::int64_t, Linear> linear_;  // by tokens
};

}  // namespace plumbline::sim
