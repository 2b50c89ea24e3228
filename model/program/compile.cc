#include "model/program/compile.h"

#include <algorithm>
#include <array>
#include <variant>

#include "model/cost/operator_class.h"
#include "model/graph/offload.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {
namespace {

bool sums_ranks(OperatorKind kind) { return kind == OperatorKind::all_reduce || kind == OperatorKind::reduce_scatter; }

bool is_host_copy(OperatorKind kind) {
  return kind == OperatorKind::copy_to_host || kind == OperatorKind::copy_to_device;
}

// The copies of one segment.
struct CopyGroup {
  Section section = Section::attention;
  std::vector<std::uint16_t> operators;
};

// Returns the copies of one phase of a block by section, in the order in which the first tensor is ready (F) or needed.
std::vector<CopyGroup> copies_of(const Graph& graph, Phase phase) {
  std::vector<CopyGroup> groups;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (op.phase != phase || !is_host_copy(op.kind)) continue;
    auto group = std::ranges::find(groups, op.section, &CopyGroup::section);
    if (group == groups.end()) group = groups.insert(group, {op.section, {}});
    group->operators.push_back(static_cast<std::uint16_t>(i));
  }
  return groups;
}

constexpr std::int32_t copy_buffers = 2;

using Last = std::map<Stream, std::uint16_t>;
using Blocks = std::map<std::int32_t, Last>;  // by position in the stage

void wait_for(const Blocks& blocks, std::int32_t position, Segment& segment) {
  const auto found = blocks.find(position);
  if (found == blocks.end()) return;
  for (const auto& [stream, last] : found->second)
    if (stream != segment.stream) segment.waits.push_back(last);
}

// Adds the waits of two buffers in each direction. A block's forward waits until the copies of the block two before it
// have left; a block's fetch starts when the backward of the block two before it has ended.
void hold_to_two_buffers(std::vector<Segment>& segments) {
  Blocks sent, computed;           // copies of the forward side; other segments of the backward side
  std::int32_t last_forward = -1;  // block of the forward side
  for (std::size_t i = 0; i < segments.size(); ++i) {
    Segment& segment = segments[i];
    const auto index = static_cast<std::uint16_t>(i);
    const auto position = static_cast<std::int32_t>(segment.block_of_stage);
    if (segment.stream == Stream::to_host) {
      sent[position][segment.stream] = index;
    } else if (segment.stream == Stream::from_host) {
      wait_for(computed, position + copy_buffers, segment);
    } else if (segment.forward_side) {
      if (position > last_forward) wait_for(sent, position - copy_buffers, segment);
      last_forward = std::max(last_forward, position);
    } else {
      computed[position][segment.stream] = index;
    }
  }
}

bool on_communication_stream(Section section) { return section == Section::dispatch || section == Section::combine; }

// Returns whether the block's dispatch and combine run in the order of the kernels around them.
bool exchanges_in_order(const Graph& block) {
  const auto exchange = std::ranges::find_if(
      block.operators, [](const Operator& op) { return class_of(op.kind) == OperatorClass::exchange; });
  return exchange != block.operators.end() && std::get<DispatchAttributes>(exchange->attributes).in_order;
}

bool is_grouped_weight_gradient(const Operator& op) {
  return op.kind == OperatorKind::grouped_matmul && op.phase == Phase::W;
}

constexpr std::size_t streams = static_cast<std::size_t>(Stream::from_host) + 1;
constexpr std::size_t sections = static_cast<std::size_t>(Section::optimizer) + 1;

class Composer {
 public:
  Composer(const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks, const TensorOverlap& overlap)
      : stage_kinds_(stage_kinds), blocks_(blocks), overlap_(overlap) {}

  SlotTemplate compose(OpType type, std::int32_t f_kind, std::int32_t b_kind) {
    result_ = {type, f_kind, b_kind, {}};
    switch (type) {
      case OpType::F:
        lone_forward(f_kind);
        break;
      case OpType::B:
        lone_backward(b_kind, true, true);
        break;
      case OpType::I:
        lone_backward(b_kind, true, false);
        break;
      case OpType::W:
        lone_backward(b_kind, false, true);
        break;
      case OpType::FB:
        pair(f_kind, b_kind);
        break;
    }
    if (leaving_) send(*leaving_);
    find_waits();
    hold_to_two_buffers(result_.segments);
    return std::move(result_);
  }

 private:
  using Operators = std::vector<std::uint16_t>;

  // A block of one side of the slot.
  struct Place {
    std::int32_t kind;
    std::size_t position;
    bool forward;
  };

  const Graph& graph(const Place& place) const { return blocks_[stage_kinds_[place.kind].blocks[place.position]]; }

  void append(const Place& place, Phase phase, Section section, Stream stream, double share,
              std::vector<std::uint16_t> operators) {
    if (operators.empty()) return;
    Segment segment;
    segment.section = section;
    segment.phase = phase;
    segment.stream = stream;
    segment.block = stage_kinds_[place.kind].blocks[place.position];
    segment.block_of_stage = static_cast<std::uint16_t>(place.position);
    segment.forward_side = place.forward;
    segment.share = share;
    segment.operators = std::move(operators);
    result_.segments.push_back(std::move(segment));
  }

  const Operators& operators_of(const Place& place, Phase phase, Section section, bool replayed = false) {
    const std::uint16_t block = stage_kinds_[place.kind].blocks[place.position];
    if (launched_.size() <= block) launched_.resize(block + std::size_t{1});
    auto& groups = launched_[block];
    if (groups.empty()) groups = group(blocks_[block]);
    return groups[group_of(phase, section, replayed)];
  }

  static std::size_t group_of(Phase phase, Section section, bool replayed) {
    return (static_cast<std::size_t>(phase) * sections + static_cast<std::size_t>(section)) * 2 + (replayed ? 1 : 0);
  }

  // Groups a block's operators that are launched together, in launch order.
  static std::vector<Operators> group(const Graph& block) {
    std::vector<Operators> groups(group_of(Phase::W, Section::optimizer, true) + 1);
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      const Operator& op = block.operators[i];
      if (!is_host_copy(op.kind))
        groups[group_of(op.phase, op.section, op.replayed)].push_back(static_cast<std::uint16_t>(i));
    }
    return groups;
  }

  void run(const Place& place, Phase phase, Section section, bool replayed = false, const Operators& done = {}) {
    Operators operators = operators_of(place, phase, section, replayed);
    std::erase_if(operators, [&](std::uint16_t op) { return std::ranges::find(done, op) != done.end(); });
    if (on_communication_stream(section) && exchanges_in_order(graph(place)))
      between_kernels(place, phase, section, operators);
    else if (on_communication_stream(section))
      append(place, phase, section, Stream::communication, 1, std::move(operators));
    else if (phase == Phase::W && section == Section::mlp)
      weight_gradients(place, operators);
    else
      computation(place, phase, section, operators);
  }

  // Appends transfers of the expert group, and the kernels before and after them on the stream of compute.
  void between_kernels(const Place& place, Phase phase, Section section, const Operators& operators) {
    for (const std::uint16_t op : operators) {
      const bool exchange = class_of(graph(place).operators[op].kind) == OperatorClass::exchange;
      append(place, phase, section, exchange ? Stream::communication : Stream::compute, 1, {op});
    }
  }

  bool is_gemm(const Place& place, std::uint16_t op) const {
    return graph(place).operators[op].kind == OperatorKind::matmul;
  }
  bool communicates(const Place& place, std::uint16_t op) const {
    return model::is_collective(graph(place).operators[op].kind);
  }

  // Returns whether nothing overlaps with an operator: software that finds the GEMM before a sum finds additions where
  // several projections read the same input.
  bool sums_alone(const Operator& op) const { return !overlap_.gradients && sums_input_gradient(op); }
  // The same of a gather for weight gradients, which such software does not cut either: it finds GEMMs whose first
  // operand is gathered.
  bool gathers_alone(const Operator& op) const {
    return !overlap_.inputs && op.phase == Phase::W && op.kind == OperatorKind::all_gather;
  }

  // Appends kernels and, on their own stream, the collectives between them. In pieces, a gather is overlapped with the
  // GEMM that reads it, and a sum with the GEMM that produces its input.
  void computation(const Place& place, Phase phase, Section section, const Operators& operators) {
    std::vector<Operators> runs;  // of kernels only or of collectives only
    for (const std::uint16_t op : operators) {
      if (runs.empty() || communicates(place, runs.back().back()) != communicates(place, op)) runs.emplace_back();
      runs.back().push_back(op);
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Operators& run = runs[i];
      if (run.empty()) continue;
      Operators* next = i + 1 < runs.size() && overlap_.pieces > 1 ? &runs[i + 1] : nullptr;
      const bool is_collective = communicates(place, run.front());
      if (is_collective && run.size() == 1 && next != nullptr && gathers(place, run.front()) &&
          !gathers_alone(graph(place).operators[run.front()])) {
        const auto last = std::ranges::find_if(*next, [&](std::uint16_t op) { return is_gemm(place, op); });
        if (last != next->end()) {
          in_pieces(place, phase, section, run, Operators(next->begin(), last + 1));
          next->erase(next->begin(), last + 1);
          continue;
        }
      }
      if (!is_collective && next != nullptr && next->size() == 1 && sums(place, next->front()) &&
          is_gemm(place, run.back()) && !sums_alone(graph(place).operators[next->front()])) {
        const Operators gemm = {run.back()};
        run.pop_back();
        append(place, phase, section, Stream::compute, 1, run);
        in_pieces(place, phase, section, gemm, std::exchange(*next, {}));
      } else {
        append(place, phase, section, is_collective ? Stream::collective : Stream::compute, 1, run);
      }
      if (!is_collective) append(place, Phase::W, section, Stream::collective, 1, std::exchange(gathers_ahead_, {}));
    }
  }

  bool gathers(const Place& place, std::uint16_t op) const {
    return graph(place).operators[op].kind == OperatorKind::all_gather;
  }

  bool sums(const Place& place, std::uint16_t op) const { return sums_ranks(graph(place).operators[op].kind); }

  void in_pieces(const Place& place, Phase phase, Section section, const Operators& first, const Operators& second) {
    const double share = 1 / static_cast<double>(overlap_.pieces);
    for (std::int64_t piece = 0; piece < overlap_.pieces; ++piece) {
      for (const Operators* part : {&first, &second}) {
        const Stream stream = communicates(place, part->front()) ? Stream::collective : Stream::compute;
        append(place, phase, section, stream, share, *part);
        result_.segments.back().ends = piece + 1 == overlap_.pieces;
      }
    }
  }

  // Alternates the experts' weight gradients between two streams, so that one fills the other's tail.
  void weight_gradients(const Place& place, const std::vector<std::uint16_t>& operators) {
    std::vector<std::uint16_t> plain;
    for (const std::uint16_t i : operators) {
      if (!is_grouped_weight_gradient(graph(place).operators[i])) {
        plain.push_back(i);
        continue;
      }
      computation(place, Phase::W, Section::mlp, std::exchange(plain, {}));
      append(place, Phase::W, Section::mlp, Stream::weight_gradient, 0.5, {i});
      append(place, Phase::W, Section::mlp, Stream::compute, 0.5, {i});
    }
    computation(place, Phase::W, Section::mlp, plain);
  }

  void forward_block(const Place& p, Phase phase = Phase::F, bool replayed = false) {
    for (Section s :
         {Section::embedding, Section::attention, Section::dispatch, Section::mlp, Section::combine, Section::head})
      run(p, phase, s, replayed);
  }

  // Appends the operators that compute activations of the forward pass again for the backward pass.
  void replay_block(const Place& p) { forward_block(p, Phase::I, true); }

  // Returns the gathers of inputs of weight gradients, which can overlap the input gradients.
  Operators gathered_again(const Place& p, Section section) {
    Operators found = operators_of(p, Phase::W, section);
    std::erase_if(found, [&](std::uint16_t op) { return !gathers(p, op); });
    return found;
  }

  // mlp(W) fills the wait for dispatch(B); attn(W) fills the wait for the next block's combine(B). Where transfers
  // run in the order of kernels, both come before them.
  void backward_block(const Place& p, bool input_gradient, bool weight_gradient) {
    const bool in_order = exchanges_in_order(graph(p));
    const auto both = [&](Section s, bool all_to_all_between) {
      if (input_gradient && weight_gradient && overlap_.inputs) gathers_ahead_ = gathered_again(p, s);
      const Operators ahead = gathers_ahead_;
      if (input_gradient) run(p, Phase::I, s);
      if (input_gradient && all_to_all_between && !in_order) run(p, Phase::I, Section::dispatch);
      if (weight_gradient) run(p, Phase::W, s, false, gathers_ahead_.empty() ? ahead : Operators{});
      gathers_ahead_.clear();
      if (input_gradient && all_to_all_between && in_order) run(p, Phase::I, Section::dispatch);
    };
    if (input_gradient) replay_block(p);
    both(Section::head, false);
    if (input_gradient) run(p, Phase::I, Section::combine);
    both(Section::mlp, true);
    both(Section::attention, false);
    both(Section::embedding, false);
  }

  void pair_block(const Place& f, const Place& b) {
    replay_block(b);
    run(b, Phase::I, Section::head);
    run(b, Phase::W, Section::head);
    run(b, Phase::I, Section::combine);
    run(f, Phase::F, Section::attention);
    run(f, Phase::F, Section::dispatch);
    run(b, Phase::I, Section::mlp);
    run(b, Phase::I, Section::dispatch);
    run(b, Phase::W, Section::mlp);
    run(f, Phase::F, Section::mlp);
    run(f, Phase::F, Section::combine);
    run(b, Phase::I, Section::attention);
    run(b, Phase::W, Section::attention);
    run(f, Phase::F, Section::head);
  }

  bool is_layer(const Place& p) { return !operators_of(p, Phase::F, Section::attention).empty(); }

  void lone_forward(std::int32_t kind) {
    for (const Place& place : places(kind, true)) lone_forward_block(place);
  }

  void lone_forward_block(const Place& place) {
    forward_block(place);
    forward_done(place);
  }

  // Copies to the host are launched with the next block; until then their tensors take memory.
  void forward_done(const Place& place) {
    if (leaving_) send(*leaving_);
    leaving_ = place;
  }

  void send(const Place& place) {
    for (CopyGroup& copies : copies_of(graph(place), Phase::F))
      append(place, Phase::F, copies.section, Stream::to_host, 1, std::move(copies.operators));
  }

  void fetch(const Place& place, Phase phase) {
    for (CopyGroup& copies : copies_of(graph(place), phase))
      append(place, phase, copies.section, Stream::from_host, 1, std::move(copies.operators));
  }

  // What a block's backward reads is fetched from the host while the block before it runs.
  void fetch_ahead(const std::vector<Place>& backward, std::size_t next, bool input_gradient, bool weight_gradient) {
    for (std::size_t i = next == 0 ? 0 : next + 1; i < std::min(next + 2, backward.size()); ++i) {
      if (input_gradient) fetch(backward[i], Phase::I);
      if (weight_gradient) fetch(backward[i], Phase::W);
    }
  }

  void lone_backward(std::int32_t kind, bool input_gradient, bool weight_gradient) {
    const std::vector<Place> backward = places(kind, false);
    for (std::size_t i = 0; i < backward.size(); ++i) {
      fetch_ahead(backward, i, input_gradient, weight_gradient);
      backward_block(backward[i], input_gradient, weight_gradient);
    }
  }

  // Returns the blocks of a stage in the order in which a side runs them.
  std::vector<Place> places(std::int32_t kind, bool forward) const {
    std::vector<Place> result;
    for (std::size_t i = 0; i < stage_kinds_[kind].blocks.size(); ++i)
      if (forward || !blocks_[stage_kinds_[kind].blocks[i]].reference) result.push_back({kind, i, forward});
    if (!forward) std::ranges::reverse(result);
    return result;
  }

  // Pairs layers as long as both sides have one. The remaining layers run unpaired, as do embedding and head, which
  // have no communication to hide.
  void pair(std::int32_t f_kind, std::int32_t b_kind) {
    const std::vector<Place> forward = places(f_kind, true);
    const std::vector<Place> backward = places(b_kind, false);
    auto f = forward.begin();
    auto b = backward.begin();
    const auto coming = [&] { fetch_ahead(backward, static_cast<std::size_t>(b - backward.begin()), true, true); };
    const auto lone_backward_block = [&] {
      coming();
      backward_block(*b, true, true);
    };
    for (; f != forward.end() && !is_layer(*f); ++f) lone_forward_block(*f);
    for (; b != backward.end() && !is_layer(*b); ++b) lone_backward_block();
    for (; f != forward.end() && b != backward.end() && is_layer(*f) && is_layer(*b); ++f, ++b) {
      coming();
      pair_block(*f, *b);
      forward_done(*f);
    }
    for (; f != forward.end(); ++f) lone_forward_block(*f);
    for (; b != backward.end(); ++b) lone_backward_block();
  }

  StageIndex index_of(std::int32_t kind) const { return {kind < 0 ? StageKind{} : stage_kinds_[kind], blocks_}; }

  void find_waits() {
    const StageIndex forward = index_of(result_.f_stage_kind), backward = index_of(result_.b_stage_kind);
    const auto index = [&](const Segment& s, TensorId id) {
      return s.forward_side ? forward(s.block_of_stage, id) : forward.size() + backward(s.block_of_stage, id);
    };
    // Holds for each tensor and stream the latest segment that writes it, counted from 1. A stream runs in order, so
    // waiting for its latest writer covers the others.
    using Latest = std::array<std::uint16_t, streams>;
    std::vector<Latest> written(forward.size() + backward.size(), Latest{});
    Latest launched{};         // the latest segment of each stream, counted from 1
    std::uint16_t summed = 0;  // the latest sum or gather for which all kernels wait, counted from 1
    for (std::size_t i = 0; i < result_.segments.size(); ++i) {
      Segment& s = result_.segments[i];
      const Graph& block = blocks_[s.block];
      Latest last{};
      for (const std::uint16_t o : s.operators)
        for (const TensorId id : block.operators[o].reads) {
          const Latest& latest = written[index(s, id)];
          for (std::size_t stream = 0; stream < streams; ++stream)
            last[stream] = std::max(last[stream], latest[stream]);
        }
      const auto& operators = s.operators;
      const bool again =
          std::ranges::any_of(operators, [&](std::uint16_t o) { return gathers_alone(block.operators[o]); });
      if (in_order(s) || again)
        for (const Stream before : {Stream::compute, Stream::weight_gradient})
          last[static_cast<std::size_t>(before)] = launched[static_cast<std::size_t>(before)];
      if (s.stream == Stream::compute || s.stream == Stream::weight_gradient) {
        std::uint16_t& collective = last[static_cast<std::size_t>(Stream::collective)];
        collective = std::max(collective, summed);
      }
      if (again || std::ranges::any_of(operators, [&](std::uint16_t o) { return sums_alone(block.operators[o]); }))
        summed = static_cast<std::uint16_t>(i + 1);
      launched[static_cast<std::size_t>(s.stream)] = static_cast<std::uint16_t>(i + 1);
      for (std::size_t stream = 0; stream < streams; ++stream)
        if (last[stream] > 0 && stream != static_cast<std::size_t>(s.stream))
          s.waits.push_back(static_cast<std::uint16_t>(last[stream] - 1));
      for (const std::uint16_t o : s.operators)
        for (const TensorId id : block.operators[o].writes)
          written[index(s, id)][static_cast<std::size_t>(s.stream)] = static_cast<std::uint16_t>(i + 1);
      join_weight_gradients(i);
    }
  }

  // Returns whether a segment is a transfer that waits for all kernels before it. Schedules that pair a forward with a
  // backward pass run one side's transfers during the kernels of the other.
  bool in_order(const Segment& s) const {
    return s.stream == Stream::communication && result_.type != OpType::FB && exchanges_in_order(blocks_[s.block]);
  }

  static bool is_concurrent(Stream stream) { return stream == Stream::collective || on_host_link(stream); }

  // Makes the compute stream wait for the weight-gradient stream before it continues.
  void join_weight_gradients(std::size_t i) {
    if (result_.segments[i].stream != Stream::compute) return;
    std::size_t last = i;
    while (last > 0 && is_concurrent(result_.segments[last - 1].stream)) --last;
    if (last < 2 || result_.segments[last - 1].share == 1) return;
    if (result_.segments[last - 2].stream == Stream::weight_gradient)
      result_.segments[i].waits.push_back(static_cast<std::uint16_t>(last - 2));
  }

  const std::vector<StageKind>& stage_kinds_;
  const std::vector<Graph>& blocks_;
  TensorOverlap overlap_;
  std::vector<std::vector<Operators>> launched_;  // [block][group_of]
  Operators gathers_ahead_;                       // weight-gradient gathers to be launched after the next kernels
  std::optional<Place> leaving_;                  // the forward block whose copies to the host come next
  SlotTemplate result_;
};

}  // namespace

TensorOverlap tensor_overlap(const Plan& plan) {
  const bool gradients = plan.overlap.tensor_gradients;
  return {plan.overlap.tensor ? plan.parallelism.tensor : 1, gradients,
          gradients || plan.recompute.policy != "selective"};
}

bool sums_input_gradient(const Operator& op) { return op.phase == Phase::I && !op.recomputed && sums_ranks(op.kind); }

SlotTemplate make_slot_template(OpType type, std::int32_t f_kind, std::int32_t b_kind,
                                const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks,
                                const TensorOverlap& overlap) {
  return Composer(stage_kinds, blocks, overlap).compose(type, f_kind, b_kind);
}

namespace {

class Assembler {
 public:
  Assembler(const Plan& plan, const Architecture& architecture, const Layout& layout, StageLibrary& library)
      : plan_(plan), architecture_(architecture), layout_(layout), library_(library) {}

  StepProgram run(Schedule schedule) {
    program_.schedule = std::move(schedule);
    program_.batches = point_to_point_batches(program_.schedule);
    for (std::int64_t stage = 0; stage < layout_.stages; ++stage) add_stage(stage);
    program_.blocks = library_.blocks();
    program_.stage_kinds = library_.program().stage_kinds;
    for (const auto& ops : program_.schedule.ranks) add_rank(ops);
    program_.gather_after_update = plan_.parallelism.zero_stage < 3 && !plan_.overlap.parameter_gather;
    program_.data_parallel = data_parallel(plan_, program_);
    program_.stage_message = library_.p2p();
    return std::move(program_);
  }

 private:
  void add_stage(std::int64_t index) {
    Stage& stage = program_.stages.emplace_back();
    stage.kind = library_.kind(block_list(plan_, architecture_, layout_, index));
    for (const StageBlock& block : stage_blocks(plan_, architecture_, layout_, index))
      stage.layers.push_back(static_cast<std::int32_t>(block.layer));
    const auto [optimizer, fresh] = optimizers_.try_emplace(stage.kind);
    if (fresh) optimizer->second = make_stage_optimizer(plan_, layout_, library_.units(stage.kind, plan_).units);
    program_.stage_optimizers.push_back(optimizer->second.graph);
    program_.stage_units.push_back(optimizer->second.units);
  }

  void add_rank(const std::vector<ScheduleOp>& ops) {
    const auto kind = [&](std::int32_t stage) {
      return stage < 0 ? -1 : program_.stages[static_cast<std::size_t>(stage)].kind;
    };
    std::vector<std::uint16_t>& slots = program_.slot_templates.emplace_back();
    for (const ScheduleOp& op : ops) {
      const std::int32_t slot = library_.slot(op.type, kind(op.f_stage), kind(op.b_stage));
      const auto [known, fresh] = templates_.try_emplace(slot, static_cast<std::uint16_t>(templates_.size()));
      if (fresh) program_.templates.push_back(library_.slot_template(slot));
      slots.push_back(known->second);
    }
  }

  const Plan& plan_;
  const Architecture& architecture_;
  const Layout& layout_;
  StageLibrary& library_;
  StepProgram program_;
  std::map<std::int32_t, StageOptimizer> optimizers_;  // by stage kind
  std::map<std::int32_t, std::uint16_t> templates_;    // by slot of the library
};

}  // namespace

BlockList block_list(const Plan& plan, const Architecture& architecture, const Layout& layout, std::int64_t stage) {
  BlockList blocks;
  for (const StageBlock& block : stage_blocks(plan, architecture, layout, stage))
    blocks.emplace_back(block.kind, block.pass);
  return blocks;
}

StepProgram assemble(const Plan& plan, const Architecture& architecture, const Layout& layout, Schedule schedule,
                     StageLibrary& library) {
  return Assembler(plan, architecture, layout, library).run(std::move(schedule));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  const MixtureOfExperts& experts = architecture.experts;
  const std::int64_t any_node = 1;  // the ranks that a token reaches do not depend on the nodes
  return compile(plan, architecture, layout,
                 routing_spread(experts, groups_per_token(plan, experts), plan.parallelism.expert, any_node));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread) {
  const auto kind = TRY(schedule_kind(plan));
  TRY(kind->check(layout.schedule));
  StageLibrary library(plan_context(plan, architecture, layout, spread), plan);
  return assemble(plan, architecture, layout, kind->build(layout.schedule), library);
}

StageLibrary::StageLibrary(LayerContext context, const Plan& plan)
    : context_(std::move(context)),
      overlap_(tensor_overlap(plan)),
      offloaded_(plan.offload.activations),
      p2p_(stage_message_bytes(context_)) {}

std::uint16_t StageLibrary::block(const BlockList::value_type& block) {
  const auto [entry, fresh] = known_blocks_.try_emplace(block, static_cast<std::uint16_t>(program_.blocks.size()));
  if (!fresh) return entry->second;
  program_.blocks.push_back(make_stage_block(block.first, block.second, context_));
  if (offloaded_ > 0) offload(program_.blocks.back(), offloaded_);
  return entry->second;
}

std::int32_t StageLibrary::kind(const BlockList& blocks) {
  const auto known = known_kinds_.find(blocks);
  if (known != known_kinds_.end()) return known->second;
  const auto index = static_cast<std::int32_t>(program_.stage_kinds.size());
  StageKind stage;
  for (const auto& one : blocks) stage.blocks.push_back(block(one));
  program_.stage_kinds.push_back(std::move(stage));
  known_kinds_.emplace(blocks, index);
  return index;
}

std::int32_t StageLibrary::slot(OpType type, std::int32_t f_kind, std::int32_t b_kind) {
  const auto [entry, fresh] =
      known_slots_.try_emplace({type, f_kind, b_kind}, static_cast<std::int32_t>(slots_.size()));
  if (!fresh) return entry->second;
  auto slot = std::make_unique<Slot>();
  slot->slot = make_slot_template(type, f_kind, b_kind, program_.stage_kinds, program_.blocks, overlap_);
  slots_.push_back(std::move(slot));
  return entry->second;
}

const UnitPlaces& StageLibrary::units(std::int32_t kind, const Plan& plan) {
  const bool by_block = plan.parallelism.zero_stage == 3;
  const double bucket = by_block ? 0 : plan.overlap.gradient_bucket_bytes;
  const auto [entry, fresh] = units_.try_emplace({kind, by_block, bucket});
  UnitPlaces& known = entry->second;
  if (!fresh) return known;
  known.units = stage_units(plan, blocks(), stage(kind));
  for (const StageUnit& unit : known.units)
    known.places.push_back({.parameters = unit.parameters, .gradients = unit.gradients});
  return known;
}

const std::vector<SegmentSpan>& StageLibrary::spans(std::int32_t slot, bool forward, const UnitPlaces& units,
                                                    bool writing) {
  const auto [entry, fresh] = spans_.try_emplace({slot, forward, &units, writing});
  if (fresh) entry->second = segment_spans(blocks(), slot_template(slot), forward, units.places, writing);
  return entry->second;
}

const std::vector<StageTensors>& StageLibrary::tensors() const {
  while (tensors_.size() < program_.stage_kinds.size()) {
    const StageTensors& stage = tensors_.emplace_back(program_, static_cast<std::int32_t>(tensors_.size()));
    kept_.emplace_back(stage.kept_after_forward(), stage.kept_for_weights());
  }
  return tensors_;
}

Bytes StageLibrary::fullest(std::int32_t slot) const {
  Slot& known = *slots_[static_cast<std::size_t>(slot)];
  if (!known.fullest) {
    const SlotMemory memory = slot_memory(program_, known.slot, tensors());
    known.fullest = memory.moments.empty() ? Bytes() : memory.moments[memory.fullest].sum();
  }
  return *known.fullest;
}

Bytes StageLibrary::kept_after_forward(std::int32_t kind) const {
  tensors();
  return kept_[static_cast<std::size_t>(kind)].first;
}

Bytes StageLibrary::kept_for_weights(std::int32_t kind) const {
  tensors();
  return kept_[static_cast<std::size_t>(kind)].second;
}

}  // namespace plumbline::model
