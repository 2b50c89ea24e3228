#include "sim/stragglers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "model/random.h"
#include "sim/heap_loop.h"
#include "sim/lane.h"

namespace plumbline::sim {

namespace {

constexpr int repetitions = 4;  // the first fills the coupling and is not counted

// Ranks drift apart within a slot but meet in order, so each segment has one meeting per repetition.
class Group final : public LaneListener {
 public:
  Group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
        std::int64_t device_sms, const Imbalance& imbalance)
      : slot_(slot),
        times_(times),
        device_sms_(device_sms),
        imbalance_(imbalance),
        random_(imbalance.seed),
        meetings_(repetitions) {
    for (auto& round : meetings_) round.resize(slot.segments.size());
    for (std::int64_t i = 0; i < ranks; ++i) {
      lanes_.emplace_back(loop_, *this, static_cast<std::int32_t>(i));
      rounds_.push_back(0);
      scales_.emplace_back();
    }
  }

  GroupRun run() {
    for (Lane& lane : lanes_) begin(lane);
    loop_.run();
    GroupRun result;
    result.waits.assign(slot_.segments.size(), 0);
    const double count = static_cast<double>(lanes_.size()) * (repetitions - 1);
    for (int round = 1; round < repetitions; ++round)
      for (std::size_t s = 0; s < slot_.segments.size(); ++s)
        result.waits[s] += to_seconds(meetings_[round][s].waited) / count;
    result.seconds = to_seconds(last_end_ - first_round_end_) / (repetitions - 1);
    return result;
  }

  void arrived(Lane& lane, std::uint32_t segment) override {
    Meeting& meeting = meetings_[rounds_[lane.id()]][segment];
    meeting.present.push_back(&lane);
    meeting.arrivals += loop_.now();
    if (meeting.present.size() < lanes_.size()) return;
    meeting.waited = loop_.now() * static_cast<Time>(lanes_.size()) - meeting.arrivals;
    for (Lane* waiting : std::exchange(meeting.present, {})) waiting->proceed(segment);
  }

  void slot_ended(Lane& lane) override {
    const int round = ++rounds_[lane.id()];
    if (round == 1) first_round_end_ = std::max(first_round_end_, loop_.now());
    last_end_ = std::max(last_end_, loop_.now());
    if (round < repetitions) begin(lane);
  }

  void segment_ended(const Lane&, std::uint32_t, const SegmentRun&) override {}

 private:
  struct Meeting {
    std::vector<Lane*> present;
    Time arrivals = 0;  // sum of arrival times
    Time waited = 0;    // sum over the ranks
  };

  double draw_rows(std::int32_t rank) {
    if (!imbalance_.rank_rows.empty()) return imbalance_.rank_rows[rank];
    return std::max(0.0, 1 + imbalance_.variation * random_.normal());
  }

  // Every layer of either side has rows of its own, the same draws whether its tensors go to the host or not.
  void begin(Lane& lane) {
    std::map<std::pair<bool, std::uint16_t>, double> rows;
    std::vector<double>& scales = scales_[lane.id()];
    scales.clear();
    for (const model::Segment& segment : slot_.segments) {
      if (model::on_host_link(segment.stream)) {
        scales.push_back(1);
        continue;
      }
      const auto [entry, fresh] = rows.try_emplace({segment.forward_side, segment.block_of_stage}, 1.0);
      if (fresh) entry->second = draw_rows(lane.id());
      scales.push_back(entry->second);
    }
    lane.start({.segments = &slot_.segments, .times = &times_, .row_scales = &scales, .device_sms = device_sms_});
  }

  const model::SlotTemplate& slot_;
  const std::vector<SegmentTime>& times_;
  std::int64_t device_sms_;
  const Imbalance& imbalance_;
  model::Random random_;
  HeapLoop loop_;
  std::deque<Lane> lanes_;
  std::vector<int> rounds_;
  std::deque<std::vector<double>> scales_;
  std::vector<std::vector<Meeting>> meetings_;
  Time first_round_end_ = 0, last_end_ = 0;
};

}  // namespace

std::vector<double> relative_rows(const std::vector<std::int64_t>& rows) {
  const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
  std::vector<double> relative;
  for (const std::int64_t count : rows)
    relative.push_back(sum > 0 ? static_cast<double>(count) * static_cast<double>(rows.size()) / sum : 1);
  return relative;
}

GroupRun run_group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                   std::int64_t device_sms, const Imbalance& imbalance) {
  return Group(slot, times, ranks, device_sms, imbalance).run();
}

}  // namespace plumbline::sim
