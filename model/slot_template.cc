#include "model/slot_template.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace plumbline::model {

namespace {

bool on_communication_stream(Section section) { return section == Section::dispatch || section == Section::combine; }

bool is_grouped_weight_gradient(const Operator& op) {
  return op.kind == OperatorKind::grouped_matmul && op.phase == Phase::W;
}

class Composer {
 public:
  Composer(const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks)
      : stage_kinds_(stage_kinds), blocks_(blocks) {}

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
    find_waits();
    return std::move(result_);
  }

 private:
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

  std::vector<std::uint16_t> operators_of(const Place& place, Phase phase, Section section) const {
    std::vector<std::uint16_t> found;
    const Graph& g = graph(place);
    for (std::size_t i = 0; i < g.operators.size(); ++i)
      if (g.operators[i].phase == phase && g.operators[i].section == section)
        found.push_back(static_cast<std::uint16_t>(i));
    return found;
  }

  void run(const Place& place, Phase phase, Section section) {
    std::vector<std::uint16_t> operators = operators_of(place, phase, section);
    if (on_communication_stream(section)) {
      append(place, phase, section, Stream::communication, 1, std::move(operators));
    } else if (phase == Phase::W && section == Section::mlp) {
      weight_gradients(place, operators);
    } else {
      append(place, phase, section, Stream::compute, 1, std::move(operators));
    }
  }

  // The experts' weight gradients alternate between two streams, so that one fills the other's tail.
  void weight_gradients(const Place& place, const std::vector<std::uint16_t>& operators) {
    std::vector<std::uint16_t> plain;
    for (const std::uint16_t i : operators) {
      if (!is_grouped_weight_gradient(graph(place).operators[i])) {
        plain.push_back(i);
        continue;
      }
      append(place, Phase::W, Section::mlp, Stream::compute, 1, std::exchange(plain, {}));
      append(place, Phase::W, Section::mlp, Stream::weight_gradient, 0.5, {i});
      append(place, Phase::W, Section::mlp, Stream::compute, 0.5, {i});
    }
    append(place, Phase::W, Section::mlp, Stream::compute, 1, plain);
  }

  void forward_block(const Place& p) {
    for (Section s :
         {Section::embedding, Section::attention, Section::dispatch, Section::mlp, Section::combine, Section::head})
      run(p, Phase::F, s);
  }

  // mlp(W) fills the wait for dispatch(B); attn(W) the one for the next block's combine(B).
  void backward_block(const Place& p, bool input_gradient, bool weight_gradient) {
    const auto both = [&](Section s, bool exchange_between) {
      if (input_gradient) run(p, Phase::I, s);
      if (input_gradient && exchange_between) run(p, Phase::I, Section::dispatch);
      if (weight_gradient) run(p, Phase::W, s);
    };
    both(Section::head, false);
    if (input_gradient) run(p, Phase::I, Section::combine);
    both(Section::mlp, true);
    both(Section::attention, false);
    both(Section::embedding, false);
  }

  void pair_block(const Place& f, const Place& b) {
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

  bool is_layer(const Place& p) const { return !operators_of(p, Phase::F, Section::attention).empty(); }

  void lone_forward(std::int32_t kind) {
    for (const Place& place : places(kind, true)) forward_block(place);
  }

  void lone_backward(std::int32_t kind, bool input_gradient, bool weight_gradient) {
    for (const Place& place : places(kind, false)) backward_block(place, input_gradient, weight_gradient);
  }

  // The blocks of a stage in the order in which a side runs them.
  std::vector<Place> places(std::int32_t kind, bool forward) const {
    std::vector<Place> result;
    for (std::size_t i = 0; i < stage_kinds_[kind].blocks.size(); ++i) result.push_back({kind, i, forward});
    if (!forward) std::ranges::reverse(result);
    return result;
  }

  // Layers pair up as long as both sides have one. Embedding and head have nothing to hide: they run
  // alone, as do layers that are left over.
  void pair(std::int32_t f_kind, std::int32_t b_kind) {
    const std::vector<Place> forward = places(f_kind, true);
    const std::vector<Place> backward = places(b_kind, false);
    auto f = forward.begin();
    auto b = backward.begin();
    for (; f != forward.end() && !is_layer(*f); ++f) forward_block(*f);
    for (; b != backward.end() && !is_layer(*b); ++b) backward_block(*b, true, true);
    for (; f != forward.end() && b != backward.end() && is_layer(*f) && is_layer(*b); ++f, ++b) pair_block(*f, *b);
    for (; f != forward.end(); ++f) forward_block(*f);
    for (; b != backward.end(); ++b) backward_block(*b, true, true);
  }

  // The tensor that stands for `id` at a block's end: its neighbour's, through blocks that pass it on.
  std::pair<std::size_t, TensorId> origin(const Place& place, TensorId id) const {
    const auto& stage = stage_kinds_[place.kind].blocks;
    std::size_t position = place.position;
    while (id == blocks_[stage[position]].input && position > 0) id = blocks_[stage[--position]].output;
    while (id == blocks_[stage[position]].output_gradient && id != blocks_[stage[position]].input &&
           position + 1 < stage.size())
      id = blocks_[stage[++position]].input_gradient;
    return {position, id};
  }

  void find_waits() {
    using Key = std::tuple<bool, std::size_t, TensorId>;
    std::map<Key, std::vector<std::uint16_t>> producers;
    for (std::size_t i = 0; i < result_.segments.size(); ++i) {
      const Segment& s = result_.segments[i];
      for (std::uint16_t o : s.operators)
        for (TensorId id : blocks_[s.block].operators[o].writes)
          producers[{s.forward_side, s.block_of_stage, id}].push_back(static_cast<std::uint16_t>(i));
    }
    for (std::size_t i = 0; i < result_.segments.size(); ++i) {
      Segment& s = result_.segments[i];
      const Place place{s.forward_side ? result_.f_stage_kind : result_.b_stage_kind, s.block_of_stage, s.forward_side};
      std::map<Stream, std::uint16_t> last;  // a stream is in order: its latest producer covers the others
      for (std::uint16_t o : s.operators) {
        for (TensorId id : blocks_[s.block].operators[o].reads) {
          const auto [position, tensor] = origin(place, id);
          const auto found = producers.find({s.forward_side, position, tensor});
          if (found == producers.end()) continue;
          for (std::uint16_t p : found->second)
            if (p < i && result_.segments[p].stream != s.stream) {
              auto& latest = last[result_.segments[p].stream];
              latest = std::max(latest, static_cast<std::uint16_t>(p + 1));
            }
        }
      }
      for (const auto& [stream, p] : last) s.waits.push_back(static_cast<std::uint16_t>(p - 1));
      join_weight_gradients(i);
    }
  }

  // The compute stream joins the second stream before it goes on.
  void join_weight_gradients(std::size_t i) {
    if (i < 2 || result_.segments[i].stream != Stream::compute) return;
    if (result_.segments[i - 1].share < 1 && result_.segments[i - 2].stream == Stream::weight_gradient)
      result_.segments[i].waits.push_back(static_cast<std::uint16_t>(i - 2));
  }

  const std::vector<StageKind>& stage_kinds_;
  const std::vector<Graph>& blocks_;
  SlotTemplate result_;
};

}  // namespace

SlotTemplate make_slot_template(OpType type, std::int32_t f_kind, std::int32_t b_kind,
                                const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks) {
  return Composer(stage_kinds, blocks).compose(type, f_kind, b_kind);
}

}  // namespace plumbline::model
