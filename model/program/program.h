// The step program: an ordered list of schedule slots for every pipeline rank. A slot consists of segments (kernels and
// transfers that run back to back on one stream). The program has no times. Each distinct slot is stored once as a
// template, which ranks and micro-batches refer to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/graph/graph.h"
#include "model/plan/layout.h"
#include "model/program/routing.h"
#include "model/result/timeline.h"
#include "model/schedule/schedule.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {

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

}  // namespace plumbline::model
