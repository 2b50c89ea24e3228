// What the blocks of a pass of inference cost on one GPU: seconds by part of the layer and by what binds them, bytes of
// weights and of cached keys and values.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/memo.h"
#include "model/cost/communication_cost.h"
#include "model/cost/host_cost.h"
#include "model/cost/kernel_cost.h"
#include "model/layers/blocks.h"
#include "model/plan/instance.h"
#include "model/profile/device_profile.h"
#include "model/program/program.h"
#include "model/result/result.h"
#include "model/routing/served_load.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns whether a block has a layer with experts.
bool has_experts(model::BlockKind kind);

// Seconds by what binds them.
struct BoundSeconds {
  static constexpr std::size_t bounds = 6;
  std::array<double, bounds> by{};  // [model::ServingBound]

  double sum() const;
  model::ServingBound largest() const;
  void add(model::ServingBound bound, double seconds) { by[static_cast<std::size_t>(bound)] += seconds; }
  BoundSeconds& operator+=(const BoundSeconds& other);
  friend BoundSeconds operator*(BoundSeconds seconds, double factor) {
    for (double& one : seconds.by) one *= factor;
    return seconds;
  }
};

// The parts of a block. Attention is in two parts, before and from its kernel over keys and values.
enum class BlockPart : std::uint8_t {
  embedding,
  attention_in,
  attention_out,
  collectives,
  dispatch,
  shared_experts,
  mlp,
  combine,
  head
};

struct BlockCost {
  static constexpr std::size_t parts = 9;
  std::array<BoundSeconds, parts> seconds{};  // [BlockPart]
  double core_attention = 0;                  // of them, in kernels over keys and values
  double weights_bytes = 0;                   // held by the rank
  double activation_bytes = 0;                // that live at once, at most
  double launches = 0;                        // seconds of the host to launch its kernels one by one
  std::vector<std::int32_t> constants;        // of the profile that the seconds depend on, in order

  const BoundSeconds& operator[](BlockPart part) const { return seconds[static_cast<std::size_t>(part)]; }
  BoundSeconds sum() const;
};

// Which model a pass is of: the served one, with its prediction module; the head, or the small model, that drafts for
// it.
enum class PassModel : std::uint8_t { served, head, draft };

// The tokens of a pass of one group of tensor-parallel ranks.
struct PassShape {
  model::InferencePass::Kind kind = model::InferencePass::Kind::decode;
  std::int64_t requests = 1, new_tokens = 1;
  double cached_tokens = 0;   // of each request before the pass
  std::int64_t padding = 0;   // of the requests, those that nobody made
  bool communicates = false;  // transfers of another micro-batch run during its kernels, and kernels during its own
  PassModel model = PassModel::served;
  bool drafts = false;  // of the new tokens only what follows the last one is wanted
};

// A block of a pass whose experts are equally popular, and what follows from it without any constant.
struct PassGraph {
  explicit PassGraph(model::Graph block);

  model::Graph graph;
  double weights_bytes = 0, activation_bytes = 0;
};

// What passes of one model have in common whatever the profile: blocks by the bytes of their context and kind, and the
// rows of the ranks that share experts. Safe for several threads.
class PassGraphs {
 public:
  std::shared_ptr<const PassGraph> find(const std::string& key, const model::LayerContext& degrees,
                                        model::BlockKind kind);
  // Returns the rows of a pass's fullest rank over the mean.
  double imbalance(const model::MixtureOfExperts& experts, const model::LayerContext& pass);

 private:
  // Above this number of graphs, some hundred megabytes, they are forgotten, and ranks with them: draws of a deployment
  // share some hundred, deployments few.
  static constexpr std::size_t most_graphs = 5'000;
  model::Memo<std::string, std::shared_ptr<const PassGraph>> graphs_;
  std::atomic<std::size_t> made_ = 0;
  using Ranks = std::tuple<std::int64_t, std::int64_t, double>;  // number, copies of experts, skew
  model::Memo<Ranks, std::shared_ptr<const model::ServedRanks>> ranks_;
  model::Memo<std::pair<Ranks, double>, double> imbalances_;  // by ranks and tokens
};

// The batch for which a CUDA graph was captured that a decode step replays, and the next smaller one (0: none).
struct CapturedBatch {
  std::int64_t below = 0, rows = 0;
};

// How an engine divides a GPU's memory; bytes.
struct EngineMemory {
  double most_requests = 0;  // of a rank; 0: any number
  double block_tokens = 1;   // of the cache
  // When a request starts there is space for this share of the tokens yet to come of those that run, of each of which
  // at most so many count; where it is 1, none is put out.
  double reserved = 0, reserved_tokens = std::numeric_limits<double>::infinity();
  bool of_static = false;  // the share is of weights and cache alone
  bool of_free = false;    // it is of what weights, activations and libraries leave
  double logit = 0;        // of each of most_requests rows in the run that finds the space
  // What it leaves free where the plan states no share.
  struct {
    double fixed = 0, token = 0, graph = 0, group_graph = 0, gpu = 0, draft = 0, draft_model = 0, least = 0;
  } left;
};

// The costs under one profile. Blocks are kept by what they depend on; safe for several threads.
class PassCosts {
 public:
  // Fails with an input error when the profile lacks a constant. The inputs, which have an ExpertGroupMemo, must
  // outlive it.
  static model::Result<std::shared_ptr<const PassCosts>> make(const Inputs& inputs);

  // Returns the costs of transfers between the ranks of an instance, which is valid for the plan's model. A profile
  // that lacks a constant of them is an input error.
  using Communication = std::shared_ptr<const model::CommunicationCost>;
  model::Result<Communication> communication(const model::Plan& plan, const model::Instance& instance,
                                             bool decodes) const;
  // Returns the model of a pass; that of PassModel::draft is the inputs', which must have one.
  const model::Architecture& architecture(PassModel model) const;
  // Returns the cost of a block of the shape's model on that instance, with the transfers of communication(). Drafts
  // have weights of 16 bits.
  std::shared_ptr<const BlockCost> block(const model::Plan& plan, const model::Instance& instance,
                                         const model::CommunicationCost& transfers, const PassShape& shape,
                                         model::BlockKind kind) const;
  // Returns the seconds of one message of that many tokens between stages.
  double message_seconds(const model::CommunicationCost& transfers, double tokens) const;
  // Returns the seconds that an engine adds to a step of `requests` requests whose kernels take `device` seconds, and
  // to one whose kernels the host launches one by one in `launches` seconds; 0: as a graph, where the engine has them.
  double engine_seconds(double device, double launches, double requests) const;

  // Returns whether the engine replays a decode step of that many requests of a rank as a CUDA graph.
  bool replays(double requests) const;
  // Returns the graph that such a step is padded to; none where its rows are those of its requests.
  std::optional<CapturedBatch> captured(double requests) const;

  const EngineMemory& memory() const { return memory_; }
  double largest_graph() const { return graphs_.most; }  // requests; infinite: every batch is captured
  // Returns whether the engine, left as it is, computes prompts in the steps of requests that decode.
  bool mixes_prompts() const { return mixes_prompts_; }
  // Returns whether a prompt that fits in a step is computed in one.
  bool whole_prompts() const { return whole_prompts_; }
  // Returns the steps that the engine launches before the tokens of the last are out.
  double steps_ahead() const { return steps_ahead_; }
  // Return the seconds in which the tokens of a step of `requests` requests are sent to clients, those from its end
  // until a client has its token, in the mean, and those until the scheduler has the tokens of a prompt's text. All are
  // 0 where the engine streams to no client.
  double streaming_seconds(double requests) const { return host_.streaming(requests); }
  double sending_seconds(double requests) const { return host_.sending(requests); }
  double tokenizing_seconds(double tokens) const { return tokenize_ * tokens; }
  // Returns whether groups of attention data parallelism divide the tokens of a chunk.
  bool shares_chunks() const { return shares_chunks_; }
  // Returns whether GEMMs read weights of that format with activations in 16 bits: where the device has no such GEMMs,
  // or the profile does not state what they cost.
  bool weights_only(model::Precision weights) const;

  const model::DeviceProfile& profile() const { return *profile_; }

 private:
  PassCosts(const Inputs& inputs, std::shared_ptr<const model::DeviceProfile> profile, const model::KernelCost& kernels,
            const model::HostCost& host)
      : inputs_(inputs),
        passes_(inputs.passes ? inputs.passes : std::make_shared<PassGraphs>()),
        served_(inputs.architecture),
        head_(head_of(inputs.architecture)),
        profile_(std::move(profile)),
        kernels_(kernels),
        host_(host) {}
  static model::Architecture head_of(model::Architecture model);

  // Returns the deviation over the mean of the load of one expert, and the rows of a pass's fullest rank over the mean.
  double skew(const model::Plan& plan) const;
  double imbalance(const model::Plan& plan, const model::LayerContext& pass) const;
  model::RoutingSpread spread(const model::Plan& plan, const model::Instance& instance) const;
  // Returns the format in which tokens are sent to experts.
  model::Precision dispatch_format(const model::Plan& plan, const model::Instance& instance) const;
  // with_experts: of a block that has some; others do not depend on how these are divided.
  model::LayerContext context(const model::Plan& plan, const model::Instance& instance, const PassShape& shape,
                              bool with_experts) const;
  struct ExpertLoad {
    double imbalance = 1;  // as imbalance() has it
    double hit = 0;        // experts of the rank that have rows; 0: those of the graph
  };
  BlockCost cost(const PassGraph& block, const PassShape& shape, model::Precision weights, const ExpertLoad& load,
                 const model::CommunicationCost& communication) const;

  const Inputs& inputs_;
  std::shared_ptr<PassGraphs> passes_;
  model::Architecture served_;  // with the format in which the engine keeps its states
  model::Architecture head_;
  std::shared_ptr<const model::DeviceProfile> profile_;
  model::KernelCost kernels_;
  model::HostCost host_;
  struct {
    std::int64_t step = 0;  // 0: every batch is captured
    double wide_from = 0, most = 0;
    std::int64_t wide_step = 0;
  } graphs_;
  EngineMemory memory_;
  bool mixes_prompts_ = true, whole_prompts_ = false, static_casts_ = false, shares_chunks_ = false;
  double steps_ahead_ = 0, tokenize_ = 0;
  mutable model::Memo<std::string, model::Result<Communication>> communications_;
  mutable model::Memo<std::string, std::shared_ptr<const BlockCost>> blocks_;
};

}  // namespace plumbline::sim
