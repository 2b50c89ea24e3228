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
