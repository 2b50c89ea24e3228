#include "sim/step/detail/messages.h"

#include <algorithm>
#include <iterator>

namespace plumbline::sim {

namespace {

constexpr std::uint32_t sent_code = 0, arrived_code = 1;

}  // namespace

Messages::Messages(Loop& loop, const model::Schedule& schedule, std::int64_t replicas, Time latency, const Wire& wire,
                   OnArrival on_arrival)
    : loop_(loop),
      replicas_(static_cast<std::int32_t>(replicas)),
      directions_(schedule.directions),
      stages_(schedule.stages),
      micro_batches_(schedule.micro_batches_per_direction()),
      latency_(latency),
      wire_(wire),
      on_arrival_(std::move(on_arrival)),
      sending_(schedule.ranks.size() * static_cast<std::size_t>(replicas)),
      receiving_(sending_.size()),
      messages_(static_cast<std::size_t>(replicas) * 2 * static_cast<std::size_t>(directions_ * stages_) *
                static_cast<std::size_t>(micro_batches_)),
      arrived_(messages_.size(), 0) {}

std::size_t Messages::index_of(std::int32_t gpu, const model::Transfer& transfer) const {
  const std::int32_t place = ((gpu % replicas_ * 2 + (transfer.forward ? 1 : 0)) * directions_ + transfer.direction);
  return (static_cast<std::size_t>(place) * static_cast<std::size_t>(stages_) +
          static_cast<std::size_t>(transfer.stage)) *
             static_cast<std::size_t>(micro_batches_) +
         static_cast<std::size_t>(transfer.micro_batch);
}

void Messages::post_send(std::int32_t gpu, const model::Transfer& transfer, bool rendezvous) {
  const std::size_t index = index_of(gpu, transfer);
  Message& message = messages_[index];
  message.sender = gpu;
  const bool awaited = message.receiver >= 0;
  if (!rendezvous) message.receiver = transfer.peer * replicas_ + gpu % replicas_;
  if (!rendezvous || awaited) queue(index);
}

void Messages::post_receive(std::int32_t gpu, const model::Transfer& transfer) {
  const std::size_t index = index_of(gpu, transfer);
  Message& message = messages_[index];
  message.receiver = gpu;
  if (message.sender >= 0) queue(index);
}

// No other waiting message can start now, because none could before.
void Messages::queue(std::size_t index) {
  Message& message = messages_[index];
  if (std::exchange(message.waiting, true)) return;
  ++ready_;
  if (start(index)) return;
  sending_[static_cast<std::size_t>(message.sender)].waiting.emplace_back(ready_, index);
  receiving_[static_cast<std::size_t>(message.receiver)].waiting.emplace_back(ready_, index);
}

// Starts what waited for the two GPUs of a message that has left their links.
void Messages::start_waiting(const Message& ended) {
  Waiting& sends = sending_[static_cast<std::size_t>(ended.sender)].waiting;
  Waiting& receives = receiving_[static_cast<std::size_t>(ended.receiver)].waiting;
  candidates_.clear();
  std::ranges::set_union(sends, receives, std::back_inserter(candidates_));
  for (const auto& candidate : candidates_) {
    if (!start(candidate.second)) continue;
    const Message& message = messages_[candidate.second];
    std::erase(sending_[static_cast<std::size_t>(message.sender)].waiting, candidate);
    std::erase(receiving_[static_cast<std::size_t>(message.receiver)].waiting, candidate);
  }
}

// Returns false where a link of its GPUs is busy.
bool Messages::start(std::size_t index) {
  Message& message = messages_[index];
  bool& sends = sending_[static_cast<std::size_t>(message.sender)].busy;
  bool& receives = receiving_[static_cast<std::size_t>(message.receiver)].busy;
  if (sends || receives) return false;
  sends = receives = true;
  message.start = loop_.now();
  const Task sent{this, sent_code, 0, index};
  if (wire_.links == nullptr) {
    loop_.at(loop_.now() + flow_time(wire_.bytes / wire_.rate), sent);
  } else {
    const Footprint& route = wire_.links->message(message.sender / replicas_, message.receiver / replicas_);
    loop_.flow({.footprint = &route, .bytes = wire_.bytes, .rate_limit = wire_.rate}, sent);
  }
  return true;
}

void Messages::handle(std::uint32_t code, std::uint64_t argument) {
  Message& message = messages_[argument];
  if (code == sent_code) {
    message.end = loop_.now();
    sending_[static_cast<std::size_t>(message.sender)].busy = false;
    receiving_[static_cast<std::size_t>(message.receiver)].busy = false;
    loop_.at(loop_.now() + latency_, {this, arrived_code, 0, argument});
    return start_waiting(message);
  }
  arrived_[argument] = 1;
  const std::size_t micro_batches = static_cast<std::size_t>(micro_batches_);
  const auto place = static_cast<std::int32_t>(argument / micro_batches);  // without its micro-batch
  on_arrival_({message.sender, message.receiver, place / (stages_ * directions_) % 2 == 1,
               place / stages_ % directions_, place % stages_, static_cast<std::int32_t>(argument % micro_batches),
               message.start, message.end});
}

}  // namespace plumbline::sim
