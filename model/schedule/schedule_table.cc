#include "model/schedule/schedule_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

namespace {

using Op = ScheduleTable::Op;
using Moment = ScheduleTable::Moment;
using RankBatches = std::vector<std::vector<std::vector<Transfer>>>;

// The order in which ranks append their ops is that of passes over all ranks: a rank that is woken by a lower one has
// its turn in the same pass, others in the next. Ranks that wait take no turn, so the cost grows with ops and not with
// ranks times passes.
class RankTurns {
 public:
  explicit RankTurns(std::size_t ranks) : waiting_(ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) now_.insert(now_.end(), rank);
  }

  // Returns the rank whose turn it is; nothing when every rank has ended or waits.
  std::optional<std::size_t> next() {
    if (now_.empty()) std::swap(now_, later_);
    if (now_.empty()) return std::nullopt;
    return now_.extract(now_.begin()).value();
  }

  // The rank takes no turn until op `op` of `producer` is appended.
  void wait(std::size_t rank, std::size_t producer, std::int64_t op) { waiting_[producer].emplace_back(op, rank); }

  // Gives turns to the ranks that wait for ops of `producer` up to `op`.
  void appended(std::size_t producer, std::int64_t op) {
    std::erase_if(waiting_[producer], [&](const auto& one) {
      if (one.first > op) return false;
      (one.second > producer ? now_ : later_).insert(one.second);
      return true;
    });
  }

 private:
  std::set<std::size_t> now_, later_;                                       // ranks of this pass and of the next
  std::vector<std::vector<std::pair<std::int64_t, std::size_t>>> waiting_;  // by producer: its op, and who waits for it
};

bool writes_gradients(const ScheduleOp& op) { return op.b_stage >= 0 && op.type != OpType::I; }

constexpr std::int64_t no_op = std::numeric_limits<std::int64_t>::max();

struct Place {  // position of an op on its rank; -1: the start; no_op: no op produces the message
  std::size_t rank = 0;
  std::int64_t op = no_op;
};

struct Wait {  // a wait until the op at `place` has ended
  Place place;
  Transfer message;
};

std::size_t cell_of(const std::vector<std::int32_t>& stages, std::int32_t stage) {
  return static_cast<std::size_t>(std::ranges::find(stages, stage) - stages.begin());
}

class Orderer {
 public:
  Orderer(const Schedule& schedule, PointToPoint mode, const RankBatches& batches)
      : schedule_(schedule),
        batched_(mode == PointToPoint::batched),
        batches_(batches),
        made_(schedule),
        sent_(schedule),
        received_(schedule),
        turns_(schedule.ranks.size()) {
    table_.outline = {schedule.kind,
                      schedule.shape,
                      schedule.stages,
                      schedule.directions,
                      schedule.placement,
                      schedule.parameter_copies,
                      mode,
                      {},
                      {}};
    auto stages = schedule.stages_by_rank();
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      ScheduleTable::Rank& entry = table_.ranks.emplace_back();
      entry.stages = std::move(stages[rank]);
      entry.ops.reserve(schedule.ranks[rank].size());
      begun_.emplace_back(entry.stages.size());
      last_.emplace_back(entry.stages.size(), -1);
      run_.push_back(-1);
    }
  }

  Result<ScheduleTable> run() {
    note_producers();
    classify();
    std::size_t left = 0;
    for (const auto& ops : schedule_.ranks) left += ops.size();
    while (const auto rank = turns_.next())
      while (done(*rank) < schedule_.ranks[*rank].size() && append(*rank)) --left;
    if (left > 0) return tl::make_unexpected(deadlock());
    return std::move(table_);
  }

 private:
  std::size_t done(std::size_t rank) const { return table_.ranks[rank].ops.size(); }
  bool ended(const Place& place) const { return place.op < static_cast<std::int64_t>(done(place.rank)); }

  void note_producers() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& ops = schedule_.ranks[rank];
      for (std::size_t k = 0; k < ops.size(); ++k) {
        const Place here{rank, static_cast<std::int64_t>(k)};
        if (ops[k].f_stage >= 0) made_.at(true, ops[k].f_dir, ops[k].f_stage, ops[k].f_mb) = here;
        if (ops[k].b_stage >= 0 && ops[k].type != OpType::W)
          made_.at(false, ops[k].b_dir, ops[k].b_stage, ops[k].b_mb) = here;
      }
      if (!batched_) continue;
      for (std::size_t k = 0; k < batches_[rank].size(); ++k)
        for (const Transfer& transfer : batches_[rank][k])
          (transfer.send ? sent_ : received_).at(transfer) = {rank, static_cast<std::int64_t>(k) - 1};
    }
  }

  void classify() {
    std::map<std::tuple<OpType, std::int32_t, std::int32_t, std::int32_t, std::int32_t>, std::uint32_t> known;
    for (const auto& ops : schedule_.ranks) {
      auto& here = class_of_.emplace_back();
      for (const ScheduleOp& op : ops) {
        const auto [entry, fresh] = known.try_emplace({op.type, op.f_stage, op.b_stage, op.f_dir, op.b_dir},
                                                      static_cast<std::uint32_t>(known.size()));
        if (fresh) table_.classes.push_back({op.type, op.f_stage, op.b_stage, op.f_dir, op.b_dir});
        here.push_back(entry->second);
      }
    }
  }

  void find_waits(std::size_t rank) {
    const std::size_t k = done(rank);
    const ScheduleOp& op = schedule_.ranks[rank][k];
    waits_.clear();
    if (batched_)
      for (const Transfer& transfer : batches_[rank][k])
        waits_.push_back({(transfer.send ? received_ : sent_).at(transfer), transfer});
    // With batches a message from another rank came with a batch that this rank has waited for.
    const auto need = [&](bool forward, std::int32_t direction, std::int32_t stage, std::int32_t mb) {
      const Place& maker = made_.at(forward, direction, stage, mb);
      if (!batched_ || maker.rank == rank)
        waits_.push_back({maker, {false, forward, schedule_.rank_of(direction, stage), direction, stage, mb}});
    };
    if (op.f_stage > 0) need(true, op.f_dir, op.f_stage - 1, op.f_mb);
    if (op.b_stage < 0) return;
    if (op.type == OpType::W) return need(false, op.b_dir, op.b_stage, op.b_mb);
    need(true, op.b_dir, op.b_stage, op.b_mb);
    if (op.b_stage + 1 < schedule_.stages) need(false, op.b_dir, op.b_stage + 1, op.b_mb);
  }

  // Appends the rank's next op; without the ops that it needs the rank waits for the first of them.
  bool append(std::size_t rank) {
    const std::size_t k = done(rank);
    find_waits(rank);
    needs_.clear();
    for (const auto& [place, message] : waits_) {
      if (!ended(place)) {
        if (place.op != no_op) turns_.wait(rank, place.rank, place.op);
        return false;
      }
      if (place.op >= 0 && place.rank != rank)
        needs_.push_back(2 * table_.ranks[place.rank].ops[static_cast<std::size_t>(place.op)] + 1);  // + 1: transfer
    }
    std::ranges::sort(needs_);
    table_.needs.insert(table_.needs.end(), needs_.begin(), std::ranges::unique(needs_).begin());
    const ScheduleOp& op = schedule_.ranks[rank][k];
    Op entry;
    entry.needs_end = static_cast<std::uint32_t>(table_.needs.size());
    entry.rank = static_cast<std::uint32_t>(rank);
    entry.slot_class = class_of_[rank][k];
    entry.type = op.type;
    entry.posts = batched_ && !batches_[rank][k].empty();
    if (op.f_stage >= 0) entry.first_forward = !std::exchange(begun_[rank][cell(rank, op.f_stage)], 1);
    entry.last_of_rank = k + 1 == schedule_.ranks[rank].size();
    const auto index = static_cast<std::uint32_t>(table_.ops.size());
    table_.ranks[rank].ops.push_back(index);
    if (writes_gradients(op)) {
      std::int64_t& run = run_[rank];
      if (run >= 0 && table_.classes[table_.ops[static_cast<std::size_t>(run)].slot_class].b_stage != op.b_stage)
        table_.ops[static_cast<std::size_t>(run)].last_of_run = true;
      last_[rank][cell(rank, op.b_stage)] = run = index;
    }
    table_.ops.push_back(entry);
    if (entry.last_of_rank) {
      for (const std::int64_t last : last_[rank])
        if (last >= 0) table_.ops[static_cast<std::size_t>(last)].last_gradient = true;
      if (run_[rank] >= 0) table_.ops[static_cast<std::size_t>(run_[rank])].last_of_run = true;
    }
    turns_.appended(rank, static_cast<std::int64_t>(k));
    return true;
  }

  std::size_t cell(std::size_t rank, std::int32_t stage) const { return cell_of(table_.ranks[rank].stages, stage); }

  Error deadlock() {
    constexpr std::size_t most = 8;
    std::vector<std::string> waits;
    for (std::size_t rank = 0; rank < table_.ranks.size() && waits.size() < most; ++rank) {
      const std::size_t next = done(rank);
      if (next == schedule_.ranks[rank].size()) continue;
      find_waits(rank);
      const auto wait = std::ranges::find_if(waits_, [&](const Wait& one) { return !ended(one.place); });
      const Transfer& message = wait->message;
      waits.push_back(fmt::format(
          "rank {} before op {} ({}) waits for rank {} over the {} of stage {}, direction {}, micro-batch {}", rank,
          next, to_string(schedule_.ranks[rank][next].type), message.peer, message.forward ? "activation" : "gradient",
          message.stage, message.direction, message.micro_batch));
    }
    Error error;
    error.kind = ErrorKind::infeasible;
    error.message = fmt::format("schedule {} deadlocks: {}", schedule_.kind, fmt::join(waits, "; "));
    return error;
  }

  const Schedule& schedule_;
  bool batched_;
  const RankBatches& batches_;                  // filled under batched transfers only
  MessageTable<Place> made_, sent_, received_;  // producer of each message; ops after which it was posted
  RankTurns turns_;
  std::vector<std::vector<std::uint32_t>> class_of_;
  ScheduleTable table_;
  std::vector<std::vector<char>> begun_;         // [rank][stage of the rank]
  std::vector<std::vector<std::int64_t>> last_;  // [rank][stage of the rank]: op of the table, -1: none yet
  std::vector<std::int64_t> run_;                // [rank]: the last op that writes gradients, likewise
  std::vector<Wait> waits_;
  std::vector<std::uint32_t> needs_;
};

// Collects the moments of one rank.
class Holder {
 public:
  Holder(const Schedule& schedule, const std::vector<std::vector<Transfer>>& batches, const ScheduleTable& table,
         std::size_t rank)
      : schedule_(schedule), batches_(batches), table_(table), rank_(rank) {
    now_.forwards.resize(stages().size());
    now_.weights.resize(stages().size());
  }

  std::vector<Moment> run() {
    const auto& ops = schedule_.ranks[rank_];
    walk_messages(schedule_, rank_, batches_, [&](std::size_t k, bool travel, std::int32_t messages) {
      now_.messages = messages;
      if (travel) return add(-1);
      if (k == ops.size()) return;
      add(table_.ops[table_.ranks[rank_].ops[k]].slot_class);
      hold(ops[k]);
    });
    return std::move(found_);
  }

 private:
  const std::vector<std::int32_t>& stages() const { return table_.ranks[rank_].stages; }

  void hold(const ScheduleOp& op) {
    if (op.f_stage >= 0) ++now_.forwards[cell_of(stages(), op.f_stage)];
    if (op.b_stage < 0) return;
    const std::size_t cell = cell_of(stages(), op.b_stage);
    --(op.type == OpType::W ? now_.weights : now_.forwards)[cell];
    if (op.type == OpType::I) ++now_.weights[cell];
  }

  static bool covers(const Moment& more, const Moment& less) {
    const auto all = [](const auto& a, const auto& b) { return std::ranges::equal(a, b, std::greater_equal{}); };
    return more.slot_class == less.slot_class && more.messages >= less.messages && all(more.forwards, less.forwards) &&
           all(more.weights, less.weights);
  }

  void add(std::int32_t slot_class) {
    now_.slot_class = slot_class;
    if (std::ranges::any_of(found_, [&](const Moment& moment) { return covers(moment, now_); })) return;
    std::erase_if(found_, [&](const Moment& moment) { return covers(now_, moment); });
    found_.push_back(now_);
  }

  const Schedule& schedule_;
  const std::vector<std::vector<Transfer>>& batches_;
  const ScheduleTable& table_;
  std::size_t rank_;
  Moment now_;
  std::vector<Moment> found_;
};

}  // namespace

Result<ScheduleTable> order_ops(const Schedule& schedule, PointToPoint mode) {
  RankBatches batches;
  if (mode == PointToPoint::batched) batches = point_to_point_batches(schedule, mode);
  return Orderer(schedule, mode, batches).run();
}

Result<ScheduleTable> make_schedule_table(const ScheduleKind& kind, const ScheduleShape& shape) {
  const Schedule schedule = kind.build(shape);
  const RankBatches batches = point_to_point_batches(schedule);
  auto table = TRY(Orderer(schedule, schedule.point_to_point, batches).run());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    table.ranks[rank].moments = Holder(schedule, batches[rank], table, rank).run();
  return table;
}

namespace {

constexpr std::string_view listed_header = "rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb";
constexpr std::array op_types = {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB};

class ListedSchedule final : public ScheduleKind {
 public:
  ListedSchedule(std::string path, Schedule schedule) : path_(std::move(path)), schedule_(std::move(schedule)) {
    schedule_.kind = std::string(schedule_file_prefix) + path_;
  }

  std::string_view name() const override { return schedule_.kind; }

  Result<void> check(const ScheduleShape& shape) const override {
    const ScheduleShape& own = schedule_.shape;
    const bool vee = schedule_.placement == Placement::vee && shape.virtual_stages == 1;
    const char* other = shape.ranks != own.ranks                             ? "ranks"
                        : shape.micro_batches != own.micro_batches           ? "micro_batches"
                        : shape.virtual_stages != own.virtual_stages && !vee ? "virtual_stages"
                        : shape.micro_batch_group != 0                       ? "micro_batch_group"
                                                                             : nullptr;
    if (other == nullptr) return {};
    return infeasible(other,
                      fmt::format("{} is of {} ranks with {} chunks each, and {} micro-batches in its own order", path_,
                                  own.ranks, own.virtual_stages, own.micro_batches),
                      "give it that shape, or write a file for this one");
  }

  Schedule outline(const ScheduleShape&) const override {
    Schedule outline = schedule_;
    outline.ranks.clear();
    return outline;
  }

  Schedule build(const ScheduleShape&) const override { return schedule_; }
  std::optional<double> exact_makespan(const ScheduleShape&, const ScheduleCosts&) const override { return {}; }
  std::int32_t activation_bound(const ScheduleShape& shape, std::int32_t) const override {
    return shape.micro_batches * schedule_.shape.virtual_stages;
  }

 private:
  std::string path_;
  Schedule schedule_;
};

struct Row {
  ScheduleOp op;
  std::int32_t rank = 0;
  int line = 0;
};

class ScheduleReader {
 public:
  ScheduleReader(const std::string& path, std::string_view text) : path_(path), text_(lines_of(text)) {}

  Result<Schedule> read() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const std::string_view line = trimmed(text_[i]);
      const int number = static_cast<int>(i) + 1;
      if (i == 0 && line != listed_header) return wrong(number, fmt::format("expected the header {}", listed_header));
      if (i > 0 && !line.empty()) TRY(read_op(line, number));
    }
    if (rows_.empty()) return wrong(0, "lists no op");
    TRY(place());
    TRY(check_chunks());
    return std::move(schedule_);
  }

 private:
  Failure wrong(int line, std::string message) const {
    return wrong_input_at(path_, line, "", std::move(message), "plumbline schedule KIND --csv - writes such a file");
  }

  Result<void> read_op(std::string_view line, int at) {
    const std::vector<std::string_view> fields = split_at(line, ',');
    if (fields.size() != 9) return wrong(at, fmt::format("{} fields below a header of 9", fields.size()));
    const std::string_view word = trimmed(fields[2]);
    const auto type = std::ranges::find(op_types, word, [](OpType one) { return to_string(one); });
    if (type == op_types.end()) return wrong(at, fmt::format("unknown op '{}'", word));
    std::array<std::int32_t, 9> values{};
    for (const std::size_t i : {0, 1, 3, 4, 5, 6, 7, 8}) {
      const std::string_view field = trimmed(fields[i]);
      const bool has = i < 3 || (i < 6 ? *type == OpType::F || *type == OpType::FB : *type != OpType::F);
      const auto value = has ? parse_number<std::int32_t>(field) : std::optional(-1);
      // No number reaches that of the lines, of which there is one for each op.
      if (field.empty() == has || !value || (has && *value < 0) || std::cmp_greater_equal(*value, text_.size()))
        return wrong(at, fmt::format("'{}' is no {} of {}", field, split_at(listed_header, ',')[i], word));
      values[i] = *value;
    }
    const auto [rank, slot, none, f_dir, f_stage, f_mb, b_dir, b_stage, b_mb] = values;
    if (std::max(f_dir, b_dir) > 1) return wrong(at, "directions are 0 and 1");
    if (std::ssize(schedule_.ranks) <= rank) schedule_.ranks.resize(static_cast<std::size_t>(rank) + 1);
    auto& ops = schedule_.ranks[static_cast<std::size_t>(rank)];
    if (slot != std::ssize(ops)) return wrong(at, fmt::format("slot {} of rank {} is expected", ops.size(), rank));
    ops.push_back({*type, f_dir, f_stage, f_mb, b_dir, b_stage, b_mb});
    rows_.push_back({ops.back(), rank, at});
    schedule_.directions = std::max({schedule_.directions, f_dir + 1, b_dir + 1});
    schedule_.stages = std::max({schedule_.stages, f_stage + 1, b_stage + 1});
    micro_batches_ = std::max({micro_batches_, f_mb + 1, b_mb + 1});
    return {};
  }

  // Finds the placement, and whether every stage is where it gives it.
  Result<void> place() {
    const auto ranks = static_cast<std::int32_t>(schedule_.ranks.size());
    const std::int32_t stages = schedule_.stages;
    if (stages % ranks != 0) return wrong(0, fmt::format("{} stages do not divide over {} ranks", stages, ranks));
    if (schedule_.directions == 2 && stages != ranks)
      return wrong(0,
                   fmt::format("{} stages in each of two directions are not one for each of {} ranks", stages, ranks));
    schedule_.shape = {ranks, micro_batches_ * schedule_.directions, stages / ranks};
    schedule_.parameter_copies = schedule_.directions;
    const auto turns = [&](const ScheduleOp& op) { return std::max(op.f_stage, op.b_stage) == ranks; };
    if (schedule_.directions == 2)
      schedule_.placement = Placement::mirrored;
    else if (stages == 2 * ranks && std::ranges::any_of(schedule_.ranks.back(), turns))
      schedule_.placement = Placement::vee;
    for (const auto& [op, rank, line] : rows_)
      for (const auto& [direction, stage] : {std::pair(op.f_dir, op.f_stage), std::pair(op.b_dir, op.b_stage)})
        if (stage >= 0 && schedule_.rank_of(direction, stage) != rank)
          return wrong(line, fmt::format("stage {} of direction {} belongs on rank {}", stage, direction,
                                         schedule_.rank_of(direction, stage)));
    return {};
  }

  // Every chunk has one forward, and one backward, whole or as I and W.
  Result<void> check_chunks() const {
    const auto stages = static_cast<std::size_t>(schedule_.stages), mbs = static_cast<std::size_t>(micro_batches_);
    const std::size_t chunks = static_cast<std::size_t>(schedule_.directions) * stages * mbs;
    if (chunks > rows_.size())
      return wrong(0, fmt::format("has fewer ops than {} stages with {} micro-batches", stages, mbs));
    constexpr unsigned f = 1, i = 2, w = 4;
    constexpr std::array<unsigned, op_types.size()> backward = {0, i | w, i, w, i | w};
    std::vector<unsigned> done(chunks);
    const auto is_new = [&](std::int32_t direction, std::int32_t stage, std::int32_t mb, unsigned parts) {
      unsigned& chunk = done[static_cast<std::size_t>((direction * schedule_.stages + stage) * micro_batches_ + mb)];
      return (std::exchange(chunk, chunk | parts) & parts) == 0;
    };
    for (const auto& [op, rank, line] : rows_)
      if ((op.f_stage >= 0 && !is_new(op.f_dir, op.f_stage, op.f_mb, f)) ||
          (op.b_stage >= 0 && !is_new(op.b_dir, op.b_stage, op.b_mb, backward[static_cast<std::size_t>(op.type)])))
        return wrong(line, fmt::format("this {} is there twice", to_string(op.type)));
    const auto open = std::ranges::find_if(done, [](unsigned chunk) { return chunk != (f | i | w); });
    if (open == done.end()) return {};
    const auto index = static_cast<std::size_t>(open - done.begin());
    return wrong(0, fmt::format("no {} of stage {}, direction {}, micro-batch {}",
                                (*open & f) == 0 ? "forward" : "whole backward", index / mbs % stages,
                                index / mbs / stages, index % mbs));
  }

  const std::string& path_;
  std::vector<std::string_view> text_;
  std::vector<Row> rows_;
  std::int32_t micro_batches_ = 0;  // of a direction
  Schedule schedule_;
};

}  // namespace

Result<std::shared_ptr<const ScheduleKind>> read_schedule_file(const std::string& path) {
  const auto text = TRY(read_text_file(path));
  auto schedule = TRY(ScheduleReader(path, text).read());
  auto kind = std::make_shared<const ListedSchedule>(path, std::move(schedule));
  TRY(order_ops(kind->build({}), PointToPoint::eager));
  return kind;
}

}  // namespace plumbline::model
