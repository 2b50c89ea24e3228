#include "sim/messages.h"

#include <algorithm>
#include <utility>

namespace plumbline::sim {

Messages::Messages(Loop& loop, std::size_t ranks, Time latency, Time duration, OnArrival on_arrival)
    : loop_(loop),
      latency_(latency),
      duration_(duration),
      on_arrival_(std::move(on_arrival)),
      send_free_(ranks, 0),
      receive_free_(ranks, 0) {}

std::size_t Messages::index_of(const model::Hop& hop) {
  const auto [entry, fresh] = indices_.try_emplace(key(hop), messages_.size());
  if (fresh) {
    messages_.emplace_back();
    keys_.push_back(entry->first);
  }
  return entry->second;
}

void Messages::post_send(std::int32_t rank, const model::Hop& hop, bool rendezvous) {
  const std::size_t index = index_of(hop);
  Message& message = messages_[index];
  message.sender = rank;
  const bool awaited = message.receiver >= 0;
  if (!rendezvous) message.receiver = hop.peer;
  if (!rendezvous || awaited) start(index);
}

void Messages::post_receive(std::int32_t rank, const model::Hop& hop) {
  const std::size_t index = index_of(hop);
  Message& message = messages_[index];
  message.receiver = rank;
  if (message.sender >= 0) start(index);
}

bool Messages::arrived(const model::Hop& hop) const {
  const auto found = indices_.find(key(hop));
  return found != indices_.end() && messages_[found->second].arrived;
}

void Messages::start(std::size_t index) {
  Message& message = messages_[index];
  if (message.started) return;
  message.started = true;
  Time& sender = send_free_[message.sender];
  Time& receiver = receive_free_[message.receiver];
  message.start = std::max({loop_.now(), sender, receiver});
  sender = receiver = message.start + duration_;
  loop_.at(message.start + duration_ + latency_, {this, 0, 0, index});
}

void Messages::handle(std::uint32_t /*code*/, std::uint64_t argument) {
  Message& message = messages_[argument];
  message.arrived = true;
  const Key& k = keys_[argument];
  on_arrival_(
      {message.sender, message.receiver, std::get<0>(k), std::get<3>(k), message.start, message.start + duration_});
}

}  // namespace plumbline::sim
