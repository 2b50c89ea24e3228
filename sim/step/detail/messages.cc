#include "sim/step/detail/messages.h"

#include <utility>

namespace plumbline::sim {

namespace {

constexpr std::uint32_t sent_code = 0, arrived_code = 1;

}  // namespace

Messages::Messages(Loop& loop, std::size_t ranks, Time latency, const Wire& wire, OnArrival on_arrival)
    : loop_(loop),
      latency_(latency),
      wire_(wire),
      on_arrival_(std::move(on_arrival)),
      sending_(ranks, false),
      receiving_(ranks, false) {}

std::size_t Messages::index_of(const model::Transfer& transfer) {
  const auto [entry, fresh] = indices_.try_emplace(key(transfer), messages_.size());
  if (fresh) {
    messages_.emplace_back();
    keys_.push_back(entry->first);
  }
  return entry->second;
}

void Messages::post_send(std::int32_t rank, const model::Transfer& transfer, bool rendezvous) {
  const std::size_t index = index_of(transfer);
  Message& message = messages_[index];
  message.sender = rank;
  const bool awaited = message.receiver >= 0;
  if (!rendezvous) message.receiver = transfer.peer;
  if (!rendezvous || awaited) queue(index);
}

void Messages::post_receive(std::int32_t rank, const model::Transfer& transfer) {
  const std::size_t index = index_of(transfer);
  Message& message = messages_[index];
  message.receiver = rank;
  if (message.sender >= 0) queue(index);
}

bool Messages::arrived(const model::Transfer& transfer) const {
  const auto found = indices_.find(key(transfer));
  return found != indices_.end() && messages_[found->second].arrived;
}

void Messages::queue(std::size_t index) {
  if (std::exchange(messages_[index].waiting, true)) return;
  waiting_.push_back(index);
  start_waiting();
}

void Messages::start_waiting() {
  std::erase_if(waiting_, [this](std::size_t index) {
    Message& message = messages_[index];
    if (sending_[message.sender] || receiving_[message.receiver]) return false;
    start(message, index);
    return true;
  });
}

void Messages::start(Message& message, std::size_t index) {
  sending_[message.sender] = receiving_[message.receiver] = true;
  message.start = loop_.now();
  const Footprint* route = wire_.links == nullptr ? nullptr : &wire_.links->message(message.sender, message.receiver);
  loop_.flow({.footprint = route, .bytes = wire_.bytes, .rate_limit = wire_.rate}, {this, sent_code, 0, index});
}

void Messages::handle(std::uint32_t code, std::uint64_t argument) {
  Message& message = messages_[argument];
  if (code == sent_code) {
    message.end = loop_.now();
    sending_[message.sender] = receiving_[message.receiver] = false;
    loop_.at(loop_.now() + latency_, {this, arrived_code, 0, argument});
    return start_waiting();
  }
  message.arrived = true;
  const Key& k = keys_[argument];
  on_arrival_({message.sender, message.receiver, std::get<0>(k), std::get<3>(k), message.start, message.end});
}

}  // namespace plumbline::sim
