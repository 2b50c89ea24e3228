// Compiles a plan to its step program. The blocks of stages and the slots made of them are built in a library, each
// when it is first needed. Plans whose blocks have the same graphs can share one; their stages, schedules, costs and
// sharding may differ.
//
// Composes the segments of a schedule slot from the blocks of its stages: the kernels of each stream, their order, and
// the waits between streams.
//
// The blocks of a plan's stages, and the context in which each is built.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/base/units.h"
#include "model/graph/graph.h"
#include "model/graph/recompute.h"
#include "model/layers/blocks.h"
#include "model/layers/context.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/program/data_parallel.h"
#include "model/program/program.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct Plan;

RecomputePolicy recompute_policy(const Plan& plan);

// Returns how the plan's tokens reach their experts: stack.dispatcher, else deepep.
Dispatcher dispatcher_of(const Plan& plan);

// Returns what the plan trains next to frozen parameters.
Adapters adapters_of(const Plan& plan);

// Returns the context of the plan's layers. plan and layout must belong together.
LayerContext plan_context(const Plan& plan, const Architecture& architecture, const Layout& layout,
                          const RoutingSpread& spread);

// Returns the same context with a default architecture, which is cheap to make and to compare.
LayerContext plan_degrees(const Plan& plan, const MixtureOfExperts& experts, const Layout& layout,
                          const RoutingSpread& spread);

// Returns whether a step has forward passes of a reference model.
bool has_reference(const Plan& plan);

// How a stage runs a block: with activations that are recomputed under the plan's policy or all kept, or forward alone,
// as a reference model. That is the policy without its adapters, or a model of the same size without any.
enum class BlockPass : std::uint8_t { kept, recomputed, reference };
struct StageBlock {
  BlockKind kind = BlockKind::dense_layer;
  BlockPass pass = BlockPass::kept;
  std::int64_t layer = -1;  // -1 for embedding and head
};

// Returns the blocks of a stage in the order of the forward pass, those of a reference model after the policy's.
std::vector<StageBlock> stage_blocks(const Plan& plan, const Architecture& architecture, const Layout& layout,
                                     std::int64_t stage);

Graph make_stage_block(BlockKind kind, BlockPass pass, const LayerContext& context);

// Returns the size of one micro-batch's message between stages; its gradient is as large.
Bytes stage_message_bytes(const LayerContext& context);

struct Plan;

// How collectives of tensor groups overlap with GEMMs.
struct TensorOverlap {
  std::int64_t pieces = 1;  // in which they run, overlapped with the GEMMs that produce or consume their data; 1: whole
  // Whether sums of input gradients overlap; where not, they run whole, and kernels wait for them.
  bool gradients = true;
  // Whether gathers overlap that are done again for weight gradients; where not, they run whole, after all kernels
  // before them, and kernels wait for them.
  bool inputs = true;
};
// Software that waits for traced collectives gathers again what selective recomputation dropped. With whole blocks
// computed again, or none, it has what it gathered for them.
TensorOverlap tensor_overlap(const Plan& plan);
// Returns whether an operator sums an input gradient over ranks; what is computed again has none.
bool sums_input_gradient(const Operator& op);

// F, B, I and W run one chunk; dispatch and combine are exposed unless compute of the same chunk can overlap them.
// FB interleaves the blocks of the forward and the backward chunk pair by pair, in DualPipe's order: compute attn(F),
// mlp(B), mlp(W), mlp(F), attn(B), attn(W); communication combine(B), dispatch(F), dispatch(B), combine(F). Blocks
// without a partner run as in a single chunk.
SlotTemplate make_slot_template(OpType type, std::int32_t f_kind, std::int32_t b_kind,
                                const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks,
                                const TensorOverlap& overlap = {});

struct Plan;

using BlockList = std::vector<std::pair<BlockKind, BlockPass>>;  // blocks of a stage

// The units of the stages of one kind, under one grouping.
struct UnitPlaces {
  std::vector<StageUnit> units;
  std::vector<ShardUnit> places;  // the same without operators
};

// Builds and stores stage kinds and slots, which are identified by their indices. Not thread-safe.
class StageLibrary {
 public:
  // `context` is the plan's; of the plan itself only overlap.tensor, overlap.tensor_gradients and
  // offload.activations are used.
  StageLibrary(LayerContext context, const Plan& plan);

  std::int32_t kind(const BlockList& blocks);
  // A kind is -1 for a side that the op does not have.
  std::int32_t slot(OpType type, std::int32_t f_kind, std::int32_t b_kind);
  // Returns the units under the plan's zero_stage and overlap.gradient_bucket_bytes.
  const UnitPlaces& units(std::int32_t kind, const Plan& plan);
  // Returns the segments of a slot that use those units, as model::segment_spans.
  const std::vector<SegmentSpan>& spans(std::int32_t slot, bool forward, const UnitPlaces& units, bool writing);

  const std::vector<Graph>& blocks() const { return program_.blocks; }
  const StageKind& stage(std::int32_t kind) const { return program_.stage_kinds[static_cast<std::size_t>(kind)]; }
  const SlotTemplate& slot_template(std::int32_t slot) const { return slots_[static_cast<std::size_t>(slot)]->slot; }
  Bytes p2p() const { return p2p_; }                       // one message between stages
  const StepProgram& program() const { return program_; }  // blocks and stage kinds only

  // Returns the most that a slot adds to what its rank kept when the slot began.
  Bytes fullest(std::int32_t slot) const;
  // What one micro-batch keeps on a stage from its forward on, and from its input gradient to its weight gradient.
  Bytes kept_after_forward(std::int32_t kind) const;
  Bytes kept_for_weights(std::int32_t kind) const;

 private:
  struct Slot {
    SlotTemplate slot;
    std::optional<Bytes> fullest;  // computed on first use
  };
  std::uint16_t block(const BlockList::value_type& block);
  const std::vector<StageTensors>& tensors() const;

  LayerContext context_;
  TensorOverlap overlap_;
  double offloaded_;  // share of the activations that waits in host memory
  Bytes p2p_;
  StepProgram program_;
  std::map<BlockList::value_type, std::uint16_t> known_blocks_;
  std::map<BlockList, std::int32_t> known_kinds_;
  mutable std::vector<StageTensors> tensors_;          // [kind], of the kinds that were needed so far
  mutable std::vector<std::pair<Bytes, Bytes>> kept_;  // [kind], after the forward and for the weights, of the same
  std::map<std::tuple<OpType, std::int32_t, std::int32_t>, std::int32_t> known_slots_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<std::tuple<std::int32_t, bool, double>, UnitPlaces> units_;  // kind, by block, bytes of a bucket
  std::map<std::tuple<std::int32_t, bool, const UnitPlaces*, bool>, std::vector<SegmentSpan>> spans_;
};

// plan and layout must belong together (make_layout succeeded). The routing spread over the expert-parallel ranks
// determines how many tokens a rank receives. Its estimate takes longer than all the rest, so callers that have it pass
// it. Errors: an unknown schedule; a schedule that does not exist for the layout (infeasible).
Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout);
Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread);

// Builds the same program from a library for the plan's graphs, which gets the parts it lacks. `schedule` is built for
// the layout. The program has all blocks and stage kinds of the library, used by this plan or not. Its templates are
// those that it uses, in the order of their first use, rank by rank.
StepProgram assemble(const Plan& plan, const Architecture& architecture, const Layout& layout, Schedule schedule,
                     StageLibrary& library);

// Returns the blocks of a stage as StageLibrary::kind() takes them.
BlockList block_list(const Plan& plan, const Architecture& architecture, const Layout& layout, std::int64_t stage);

}  // namespace plumbline::model
