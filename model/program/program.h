// The step program: an ordered list of schedule slots for every pipeline rank. A slot consists of segments (kernels and
// transfers that run back to back on one stream). The program has no times. Each distinct slot is stored once as a
// template, which ranks and micro-batches refer to.
//
// What the spans of a step state about its program: stage, chunk, direction, layer, micro-batch and work. The same for
// a simulated and an executed step.
//
// Lists the distinct shapes in which a step runs its kernels, which are worth measuring for a plan.
//
// Estimates where tokens go, for group-limited top-k routing with independent random scores.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/graph/graph.h"
#include "model/plan/layout.h"
#include "model/result/timeline.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct Plan;

struct RoutingSpread {
  double ranks_per_token = 0;  // expected distinct expert-parallel ranks that a token reaches
  double nodes_per_token = 0;  // expected distinct nodes
};

// Estimates how many ranks and nodes a token reaches. Experts are placed contiguously on `expert_parallel` ranks,
// `ranks_per_node` to a node. A token may use `groups_per_token` of the model's expert groups; a group's score is the
// sum of its group_score_experts best scores. The estimate draws 2,048 random tokens from a fixed seed, because the
// selected groups depend on the experts in them. The standard error of nodes_per_token is below 0.01; ranks_per_token
// does not depend on ranks_per_node. It takes about 20 ms for 256 experts. Of more than 8,192 experts fewer tokens are
// drawn, at least 16, so that a million experts take a second or two; the error grows to 11 times at most.
RoutingSpread routing_spread(const MixtureOfExperts& experts, std::int64_t groups_per_token,
                             std::int64_t expert_parallel, std::int64_t ranks_per_node);

// How unevenly the rows of experts lie on the ranks of an expert group, as their standard deviation over their mean.
struct RoutingBalance {
  // What a step is predicted with: routing.imbalance, or the deviation of rows from what they expect where the plan
  // states the load of experts (model/routing/rank_rows.h); 0 where it states neither.
  double used = 0;
  // What routing does that balances itself, and the range (eight of ten) from forced balance to an auxiliary loss
  // alone. Around a value above 0 that the plan states it is that of the sources, from loss-free balancing on.
  double middle = 0, low = 0, high = 0;
  bool stated = false;  // else a prediction with `used` is one of forced balance
};

// Returns the balance of the plan's routing. Its numbers are for one expert and even out over the m experts of a rank
// by sqrt(m). Where biases balance: 0.15 from the waits in DeepSeek-V3's published profile (0.075 at four experts a
// rank, docs/validation.md), at most 0.3 (0.24 in training, imbalance.ultraep.deepseek_v3 of
// calibrate/published/straggler_priors.toml). With an auxiliary loss: auxiliary_variation()
// (model/routing/rank_rows.h), at most 1.4 times that, as 0.83 and 0.59 of 128 experts. Loss-free balancing over a
// whole batch leaves 0.04 / 2.4.
RoutingBalance routing_balance(const Plan& plan, const MixtureOfExperts& experts);

// Makes the rows of expert ranks vary by `imbalance`, whatever else the plan states about its routing.
void set_imbalance(Plan& plan, double imbalance);

struct Plan;

struct Segment {
  Section section = Section::attention;
  Phase phase = Phase::F;
  Stream stream = Stream::compute;
  std::uint16_t block = 0;               // index into StepProgram::blocks
  std::uint16_t block_of_stage = 0;      // position of the block in its stage
  bool forward_side = true;              // belongs to the forward micro-batch of an FB pair
  double share = 1;                      // share of each operator's work (the rest runs on another stream)
  std::vector<std::uint16_t> operators;  // indices into the block's graph, in launch order
  std::vector<std::uint16_t> waits;      // segments of the same template that must have ended (cross-stream)
  bool ends = true;                      // the last of the pieces into which its operators are cut, or whole
};

struct SlotTemplate {
  OpType type = OpType::F;
  std::int32_t f_stage_kind = -1, b_stage_kind = -1;
  std::vector<Segment> segments;  // launch order; each stream runs its own in this order
};

struct StageKind {  // distinct lists of blocks
  std::vector<std::uint16_t> blocks;
};
struct Stage {
  std::int32_t kind = 0;
  std::vector<std::int32_t> layers;  // model layer of each block, -1 for embedding and head
};

// Parameters of a stage that are reduced and gathered together: a gradient bucket or, under zero_stage 3, the expert or
// the other parameters of a block. Operators are indices into the stage's optimizer graph and run in order.
struct ShardUnit {
  struct Place {  // a tensor of one of the stage's blocks
    std::uint16_t block_of_stage = 0;
    TensorId tensor = 0;
  };
  std::vector<std::uint16_t> reduce;  // casts to the format on the wire, collectives
  std::vector<std::uint16_t> gather;  // empty where nothing is sharded
  std::vector<std::uint16_t> copy;    // copies of the reduced gradients to the host
  std::vector<std::uint16_t> update;  // AdamW, once the whole gradient is reduced
  std::vector<Place> parameters;      // including those that other blocks of the stage share
  std::vector<Place> gradients;       // gradients of these parameters
};

// A reduction or gather of a unit on a pipeline rank, and when it runs. A rank's entries run in order on one stream.
struct DataParallelCollectives {
  enum class Kind : std::uint8_t { gather, reduce };
  struct Moment {
    std::int32_t slot = -1;     // index in the rank's program; -1: none
    std::int32_t segment = -1;  // index in the slot; -1: the whole slot
    auto operator<=>(const Moment&) const = default;
  };
  Kind kind = Kind::reduce;
  std::int32_t stage = 0, unit = 0;
  Moment after;   // the collective starts when this ends; none: at the start of the step
  Moment before;  // this waits for the collective; none: only the update waits
};

struct StepProgram {
  std::vector<Graph> blocks;
  std::vector<StageKind> stage_kinds;
  std::vector<Stage> stages;
  std::vector<Graph> stage_optimizers;              // per stage: gradient reduction, AdamW, parameter gather
  std::vector<std::vector<ShardUnit>> stage_units;  // [stage]
  std::vector<std::vector<DataParallelCollectives>> data_parallel;  // [rank], in the order in which they can start
  bool gather_after_update = false;                                 // gather each unit at the end of the step
  std::vector<SlotTemplate> templates;
  Schedule schedule;
  std::vector<std::vector<std::uint16_t>> slot_templates;   // [rank][op]
  std::vector<std::vector<std::vector<Transfer>>> batches;  // [rank][op] point-to-point before the op
  Bytes stage_message;                                      // one message between stages; its gradient is as large
};

// Returns "attn(F)", "mlp(W)", "dispatch(B)": the span names of the published H800 profile. Phase I prints as B.
std::string span_name(Section section, Phase phase);

// Groups the parameters of a stage that are reduced and gathered together.

struct UnitPiece {  // the parameters of one stored format
  DataType stored = DataType::bf16;
  bool frozen = false;  // gathered, but neither reduced nor updated
  bool muon = false;    // updated by Muon, else by AdamW
  double elements = 0;
  double whole = 0;         // of these, elements that every tensor-parallel rank holds whole
  double cast = 0;          // of these, elements of which GEMMs read copies that are made once a step
  std::uint8_t copies = 0;  // how many of each
  std::map<std::pair<std::int64_t, std::int64_t>, double> matrices;  // of Muon: how many of each shape
};
struct StageUnit {
  std::string name;
  bool expert = false;
  std::vector<UnitPiece> pieces;
  std::vector<ShardUnit::Place> parameters, gradients;
};

// Returns whether Muon updates a parameter: matrices of layers, not embedding, head and vectors.
bool updated_by_muon(const Plan& plan, const Tensor& parameter);

// Groups the parameters that the stage owns, frozen ones only where they are gathered (zero_stage 3), in the order in
// which the backward pass completes their gradients. Where another block of the stage shares a parameter, its place
// there is listed too.
std::vector<StageUnit> stage_units(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage);

// The names of the collectives of data parallelism in a timeline.
inline constexpr std::string_view reduce_gradients = "reduce gradients", gather_parameters = "gather parameters";

class SpanLabels {
 public:
  explicit SpanLabels(const StepProgram& program);  // must outlive the object

  // The following return a span of pipeline rank `rank` without name, depth and time.
  Span slot(std::size_t rank, std::size_t op) const;
  // sent_bytes: what the GPU sends in a segment of communication or collectives; 0: not known.
  Span segment(std::size_t rank, std::size_t op, std::size_t segment, double sent_bytes);
  // Returns operator `index` of the segment whose span is `place`.
  Span kernel(const Span& place, std::size_t op, std::size_t segment, std::size_t index);
  // sent_bytes: what a GPU sends of the message.
  Span message(std::size_t rank, const Transfer& sent, double sent_bytes);
  // Returns a span of the optimizer's stream: a collective of data parallelism, of this class, or work after the slots.
  Span outside_slots(std::size_t rank, std::string_view name, std::int32_t stage = -1,
                     const std::string& class_name = "collective", double sent_bytes = 0);

  // Fills works and layers of a timeline whose spans came from here.
  void describe(Timeline& timeline) const;

 private:
  using WorkKey = std::tuple<std::uint16_t, std::size_t, std::size_t>;  // template, segment, operator + 1 or 0
  std::int32_t chunk_of(std::size_t rank, std::int32_t direction, std::int32_t stage) const;
  const Segment& segment_of(std::size_t rank, std::size_t op, std::size_t segment) const {
    return program_.templates[program_.slot_templates[rank][op]].segments[segment];
  }
  SpanWork work_of(const Segment& segment, double sent_bytes) const;
  std::int32_t add_work(const SpanWork& work);

  const StepProgram& program_;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> chunks_;  // [rank]: direction, stage
  std::map<WorkKey, std::int32_t> known_;
  std::map<std::pair<std::string, double>, std::int32_t> collectives_;  // by class and bytes
  std::int32_t message_ = -1;                                           // the work of a message, once there was one
  std::vector<SpanWork> works_;
};

struct KernelShape {
  std::string op;      // gemm, rmsnorm, swiglu, quantise, permute, adamw
  std::string name;    // of the first operator with this shape, e.g. "q_b"
  std::string phase;   // gemm: F, I or W
  std::string format;  // gemm: bf16, fp16, fp32, fp8_block, fp8_tensor, mxfp8, nvfp4 or mxfp4
  // gemm: m, n, k, groups, with D[m,n] summed over k (groups: m, or k in phase W, is that of one group); rmsnorm,
  // swiglu (columns of its output), quantise: rows, columns; permute: also top_k, the output rows per input row; adamw:
  // elements of one rank.
  std::vector<std::pair<std::string, std::int64_t>> extents;
  std::int64_t count = 0;  // runs in one micro-batch (adamw: one step) over all stages
};

struct KernelShapes {
  std::vector<KernelShape> shapes;  // gemm first, then by op in the order above, each in program order
  std::set<std::string> others;     // operators without a shape: attention, rotary, ...
};

// Returns the shapes of a program. Rows that vary with routing have their expected value, rounded up per group.
KernelShapes kernel_shapes(const StepProgram& program);

}  // namespace plumbline::model
