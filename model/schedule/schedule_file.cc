#include "model/schedule/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {
namespace {

constexpr std::string_view header = "rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb";
constexpr std::array op_types = {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB};

class ListedSchedule final : public ScheduleKind {
 public:
  ListedSchedule(std::string path, Schedule schedule) : path_(std::move(path)), schedule_(std::move(schedule)) {
    schedule_.kind = std::string(schedule_file_prefix) + path_;
  }

  std::string_view name() const override { return schedule_.kind; }

  Result<void> check(const ScheduleShape& shape) const override {
    const ScheduleShape& own = schedule_.shape;
    const auto wrong = [&](const char* field, std::int32_t listed, std::int32_t wanted, const char* what) {
      return infeasible(field, fmt::format("{} lists {} {}, not {}", path_, listed, what, wanted));
    };
    if (shape.ranks != own.ranks) return wrong("ranks", own.ranks, shape.ranks, "ranks");
    if (shape.micro_batches != own.micro_batches)
      return wrong("micro_batches", own.micro_batches, shape.micro_batches, "micro-batches");
    const bool vee = schedule_.placement == Placement::vee && shape.virtual_stages == 1;
    if (shape.virtual_stages != own.virtual_stages && !vee)
      return wrong("virtual_stages", own.virtual_stages, shape.virtual_stages, "chunks per rank");
    return {};
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

class Reader {
 public:
  Reader(const std::string& path, std::string_view text) : path_(path), text_(lines_of(text)) {}

  Result<Schedule> read() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const std::string_view line = trimmed(text_[i]);
      const int number = static_cast<int>(i) + 1;
      if (i == 0 && line != header) return wrong(number, fmt::format("expected the header {}", header));
      if (i > 0 && !line.empty()) TRY(read_op(line, number));
    }
    if (lines_.empty()) return wrong(0, "lists no op");
    TRY(place());
    TRY(check_chunks());
    return std::move(schedule_);
  }

 private:
  Failure wrong(int line, std::string message) const {
    return wrong_input_at(path_, line, "", std::move(message), "plumbline schedule KIND --csv - writes such a file");
  }

  // Returns a whole number below that of the lines, of which a file has as many as it has ops; -1 of an empty field.
  std::optional<std::int32_t> number(std::string_view field) const {
    if (field.empty()) return -1;
    const auto value = parse_number<std::int32_t>(field);
    return value && *value >= 0 && static_cast<std::size_t>(*value) < text_.size() ? value : std::nullopt;
  }

  Result<void> read_op(std::string_view line, int at) {
    const std::vector<std::string_view> fields = split(line, ',');
    if (fields.size() != 9) return wrong(at, fmt::format("{} fields below a header of 9", fields.size()));
    std::array<std::int32_t, 9> values{};
    for (const std::size_t i : {0, 1, 3, 4, 5, 6, 7, 8}) {
      const auto value = number(trimmed(fields[i]));
      if (!value) return wrong(at, fmt::format("'{}' is no number of this file", trimmed(fields[i])));
      values[i] = *value;
    }
    const auto [rank, slot, none, f_dir, f_stage, f_mb, b_dir, b_stage, b_mb] = values;
    const auto type = std::ranges::find(op_types, trimmed(fields[2]), [](OpType one) { return to_string(one); });
    if (type == op_types.end()) return wrong(at, fmt::format("unknown op '{}'", trimmed(fields[2])));
    const bool forward = *type == OpType::F || *type == OpType::FB, backward = *type != OpType::F;
    for (const std::int32_t value : {f_dir, f_stage, f_mb})
      if ((value >= 0) != forward)
        return wrong(at, fmt::format("{} {} f_dir, f_stage and f_mb", to_string(*type), forward ? "needs" : "has no"));
    for (const std::int32_t value : {b_dir, b_stage, b_mb})
      if ((value >= 0) != backward)
        return wrong(at, fmt::format("{} {} b_dir, b_stage and b_mb", to_string(*type), backward ? "needs" : "has no"));
    if (std::max(f_dir, b_dir) > 1) return wrong(at, "directions are 0 and 1");
    if (rank < 0) return wrong(at, "an op without rank");
    if (schedule_.ranks.size() <= static_cast<std::size_t>(rank)) {
      schedule_.ranks.resize(static_cast<std::size_t>(rank) + 1);
      lines_.resize(schedule_.ranks.size());
    }
    auto& ops = schedule_.ranks[static_cast<std::size_t>(rank)];
    if (slot != std::ssize(ops)) return wrong(at, fmt::format("slot {} of rank {} is expected", ops.size(), rank));
    ops.push_back({*type, f_dir, f_stage, f_mb, b_dir, b_stage, b_mb});
    lines_[static_cast<std::size_t>(rank)].push_back(at);
    schedule_.directions = std::max({schedule_.directions, f_dir + 1, b_dir + 1});
    schedule_.stages = std::max({schedule_.stages, f_stage + 1, b_stage + 1});
    micro_batches_ = std::max({micro_batches_, f_mb + 1, b_mb + 1});
    return {};
  }

  // Calls visit(op, rank, line) for every op, until it returns an error.
  template <class Visit>
  Result<void> each(const Visit& visit) const {
    for (std::size_t rank = 0; rank < lines_.size(); ++rank)
      for (std::size_t k = 0; k < lines_[rank].size(); ++k)
        TRY(visit(schedule_.ranks[rank][k], static_cast<std::int32_t>(rank), lines_[rank][k]));
    return {};
  }

  // Finds the placement, and whether every stage is where it gives it.
  Result<void> place() {
    const auto ranks = static_cast<std::int32_t>(schedule_.ranks.size());
    const std::int32_t stages = schedule_.stages;
    if (stages % ranks != 0 || (schedule_.directions == 2 && stages != ranks))
      return wrong(0, fmt::format("{} stages do not divide over {} ranks", stages, ranks));
    schedule_.shape = {ranks, micro_batches_ * schedule_.directions, stages / ranks};
    if (schedule_.directions == 2) schedule_.placement = Placement::mirrored;
    schedule_.parameter_copies = schedule_.directions;
    const auto holds = [&](const ScheduleOp& op) { return std::max(op.f_stage, op.b_stage) == ranks; };
    if (stages == 2 * ranks && std::ranges::any_of(schedule_.ranks.back(), holds)) schedule_.placement = Placement::vee;
    return each([&](const ScheduleOp& op, std::int32_t rank, int line) -> Result<void> {
      for (const auto& [direction, stage] : {std::pair(op.f_dir, op.f_stage), std::pair(op.b_dir, op.b_stage)})
        if (stage >= 0 && schedule_.rank_of(direction, stage) != rank)
          return wrong(line, fmt::format("stage {} of direction {} belongs on rank {}", stage, direction,
                                         schedule_.rank_of(direction, stage)));
      return {};
    });
  }

  // Every chunk has one forward, and one backward, whole or as I and W.
  Result<void> check_chunks() const {
    const auto stages = static_cast<std::size_t>(schedule_.stages), mbs = static_cast<std::size_t>(micro_batches_);
    const std::size_t chunks = static_cast<std::size_t>(schedule_.directions) * stages * mbs;
    if (chunks > text_.size())
      return wrong(0, fmt::format("lists fewer ops than {} stages of {} micro-batches have", stages, mbs));
    constexpr unsigned f = 1, i = 2, w = 4;
    std::vector<unsigned> done(chunks);
    const auto counted = each([&](const ScheduleOp& op, std::int32_t, int line) -> Result<void> {
      const auto add = [&](std::int32_t direction, std::int32_t stage, std::int32_t mb,
                           unsigned parts) -> Result<void> {
        unsigned& chunk = done[(static_cast<std::size_t>(direction) * stages + static_cast<std::size_t>(stage)) * mbs +
                               static_cast<std::size_t>(mb)];
        if ((chunk & parts) != 0)
          return wrong(line, fmt::format("{} of stage {}, direction {}, micro-batch {} is there twice",
                                         to_string(op.type), stage, direction, mb));
        chunk |= parts;
        return {};
      };
      if (op.f_stage >= 0) TRY(add(op.f_dir, op.f_stage, op.f_mb, f));
      if (op.b_stage < 0) return {};
      return add(op.b_dir, op.b_stage, op.b_mb, op.type == OpType::I ? i : op.type == OpType::W ? w : i | w);
    });
    if (!counted) return counted;
    const auto open = std::ranges::find_if(done, [](unsigned chunk) { return chunk != (f | i | w); });
    if (open == done.end()) return {};
    const auto index = static_cast<std::size_t>(open - done.begin());
    return wrong(0, fmt::format("no {} of stage {}, direction {}, micro-batch {}",
                                (*open & f) == 0   ? "F"
                                : (*open & i) == 0 ? "B or I"
                                                   : "W",
                                index / mbs % stages, index / mbs / stages, index % mbs));
  }

  const std::string& path_;
  std::vector<std::string_view> text_;
  std::vector<std::vector<int>> lines_;  // [rank][op]
  std::int32_t micro_batches_ = 0;       // of a direction
  Schedule schedule_;
};

}  // namespace

Result<std::shared_ptr<const ScheduleKind>> read_schedule_file(const std::string& path) {
  const auto text = TRY(read_text_file(path));
  auto schedule = TRY(Reader(path, text).read());
  auto kind = std::make_shared<const ListedSchedule>(path, std::move(schedule));
  TRY(order_ops(kind->build({}), PointToPoint::eager));
  return kind;
}

}  // namespace plumbline::model
