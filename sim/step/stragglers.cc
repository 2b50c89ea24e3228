#include "sim/step/stragglers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "model/base/bytes.h"
#include "model/base/random.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "sim/engine/gpu_loop.h"
#include "sim/engine/gpu_model.h"

namespace plumbline::sim {
namespace {

constexpr int repetitions = 4;  // the first only couples the ranks and is not counted

struct Member {  // a rank of the group
  Member(GpuListener& listener, std::int32_t rank) : gpu(loop, listener, rank) {}

  GpuLoop loop;
  GpuModel gpu;
  std::vector<double> row_scales;  // [segment]
  bool stopped = false;            // at a barrier or at the end of the slot, since `since`
  Time since = 0;
};

// Ranks are independent between two barriers, so they run one after the other from barrier to barrier. They are kept in
// the order in which they reached the last one, which is also the order of the draws of the next slot.
class Group final : public GpuListener {
 public:
  Group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
        std::int64_t device_sms, const Imbalance& imbalance)
      : slot_(slot), times_(times), device_sms_(device_sms), imbalance_(imbalance), random_(imbalance.seed) {
    find_layers();
    for (std::int64_t i = 0; i < ranks; ++i)
      order_.push_back(&members_.emplace_back(*this, static_cast<std::int32_t>(i)));
  }

  GroupRun run() {
    GroupRun result;
    result.waits.assign(slot_.segments.size(), 0);
    result.first = result.waits;
    const auto ranks = static_cast<double>(members_.size()), counted = ranks * (repetitions - 1);
    Time first_end = 0, last_end = 0;
    for (int round = 0; round < repetitions; ++round) {
      for (Member* member : order_) begin(*member);
      for (const std::uint32_t segment : barriers_) {
        const Time waited = pass_barrier(segment);
        (round > 0 ? result.waits : result.first)[segment] += to_seconds(waited) / (round > 0 ? counted : ranks);
      }
      last_end = std::max(last_end, run_to_stop());
      if (round == 0) first_end = last_end;
    }
    result.seconds = to_seconds(last_end - first_end) / (repetitions - 1);
    return result;
  }

  void arrived(GpuModel& gpu, std::uint32_t /*segment*/) override { stop(gpu); }
  void slot_ended(GpuModel& gpu) override { stop(gpu); }
  void segment_ended(const GpuModel&, std::uint32_t, const SegmentRun&) override {}

 private:
  // Gives every layer of either side its own rows. The draws are the same whether or not its tensors go to the host.
  void find_layers() {
    std::map<std::pair<bool, std::uint16_t>, std::int32_t> layers;
    for (std::uint32_t s = 0; s < slot_.segments.size(); ++s) {
      const model::Segment& segment = slot_.segments[s];
      if (segment.stream == model::Stream::communication) barriers_.push_back(s);
      if (model::on_host_link(segment.stream)) {
        layer_of_.push_back(-1);
        continue;
      }
      const auto next = static_cast<std::int32_t>(layers.size());
      layer_of_.push_back(layers.try_emplace({segment.forward_side, segment.block_of_stage}, next).first->second);
    }
    rows_.resize(layers.size());
  }

  double draw_rows(std::int32_t rank) {
    const double rows = imbalance_.rank_rows.empty() ? 1 + imbalance_.variation * random_.normal()
                                                     : imbalance_.rank_rows[static_cast<std::size_t>(rank)];
    return std::clamp(rows, 0.0, imbalance_.most);
  }

  void begin(Member& member) {
    for (double& rows : rows_) rows = draw_rows(member.gpu.id());
    member.row_scales.clear();
    for (const std::int32_t layer : layer_of_)
      member.row_scales.push_back(layer < 0 ? 1 : rows_[static_cast<std::size_t>(layer)]);
    member.gpu.start(
        {.segments = &slot_.segments, .times = &times_, .row_scales = &member.row_scales, .device_sms = device_sms_});
  }

  void stop(GpuModel& gpu) {
    Member& member = members_[static_cast<std::size_t>(gpu.id())];
    member.stopped = true;
    member.since = member.loop.now();
  }

  // Returns when the last rank stops.
  Time run_to_stop() {
    for (Member* member : order_) {
      while (!member->stopped) member->loop.run_next();
      member->stopped = false;
    }
    std::ranges::stable_sort(order_, {}, &Member::since);
    return order_.back()->since;
  }

  // Ranks that arrive early continue with the compute they have. Returns the sum of the ranks' waits.
  Time pass_barrier(std::uint32_t segment) {
    const Time begin = run_to_stop();
    Time waited = 0;
    for (Member* member : order_) {
      waited += begin - member->since;
      while (member->loop.next() < begin) member->loop.run_next();
      member->loop.move_to(begin);
      member->gpu.proceed(segment);
    }
    return waited;
  }

  const model::SlotTemplate& slot_;
  const std::vector<SegmentTime>& times_;
  std::int64_t device_sms_;
  const Imbalance& imbalance_;
  model::Random random_;
  std::vector<std::uint32_t> barriers_;  // segments, in the order of their stream
  std::vector<std::int32_t> layer_of_;   // [segment] -1: a copy to or from the host
  std::vector<double> rows_;             // [layer] of one rank
  std::deque<Member> members_;
  std::vector<Member*> order_;
};

}  // namespace

std::uint64_t slot_seed(model::OpType type) {
  constexpr std::uint64_t first = 61;
  return first + static_cast<std::uint64_t>(type);
}

std::vector<double> relative_rows(const std::vector<std::int64_t>& rows) {
  const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
  std::vector<double> relative;
  for (const std::int64_t count : rows)
    relative.push_back(sum > 0 ? static_cast<double>(count) * static_cast<double>(rows.size()) / sum : 1);
  return relative;
}

Imbalance imbalance_of(const model::Plan& plan, const model::MixtureOfExperts& experts, std::uint64_t seed) {
  const auto& routing = plan.routing;
  if (routing.capacity_factor && routing.pad_to_capacity.value_or(false)) return {.seed = seed};
  Imbalance imbalance{model::routing_balance(plan, experts).used, relative_rows(routing.rows_per_rank), seed};
  if (routing.capacity_factor) imbalance.most = std::max(1.0, *routing.capacity_factor);
  return imbalance;
}

GroupRun run_group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                   std::int64_t device_sms, const Imbalance& imbalance) {
  return Group(slot, times, ranks, device_sms, imbalance).run();
}

std::string group_run_bytes(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                            std::int64_t device_sms, const Imbalance& imbalance) {
  std::string bytes;
  model::ByteWriter key(bytes);
  key.add(ranks, device_sms, imbalance);
  // Without links, the rates and bytes of a transfer's legs change nothing, and waits are what a run finds.
  for (const SegmentTime& time : times) {
    key.add(time.compute, time.compute_per_row, time.width, time.drain);
    key.add(time.prepare, time.prepare_overlapped, time.notify, time.transfer, time.transfer_overlapped);
    key.add(time.held, time.wait_measured);
  }
  for (const model::Segment& segment : slot.segments)
    key.add(segment.stream, segment.block_of_stage, segment.forward_side, segment.waits);
  return bytes;
}

}  // namespace plumbline::sim
