#include "real/host/comm/control.h"

#include <cstddef>
#include <utility>

#include "real/executor/infeasible.h"

namespace plumbline::real::host {

namespace {

using model::Result;

constexpr Tag control_tag{control_channel, 0};

Packet packet_of(const std::string& bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {{begin, begin + bytes.size()}, 0};
}

class TransportChannel final : public ControlChannel {
 public:
  explicit TransportChannel(Transport& transport) : transport_(transport) {}

  std::int32_t rank() const override { return transport_.rank(); }
  std::int32_t ranks() const override { return transport_.ranks(); }

  Result<std::vector<std::string>> gather(const std::string& bytes) override {
    return guarded([&]() -> std::vector<std::string> {
      if (rank() > 0) {
        transport_.send(0, control_tag, packet_of(bytes));
        return {};
      }
      std::vector<std::string> all{bytes};
      for (std::int32_t from = 1; from < ranks(); ++from) all.push_back(received(from));
      return all;
    });
  }

  Result<std::string> broadcast(const std::string& bytes) override {
    return guarded([&] {
      if (rank() > 0) return received(0);
      for (std::int32_t to = 1; to < ranks(); ++to) transport_.send(to, control_tag, packet_of(bytes));
      return bytes;
    });
  }

  void abort(const std::string& reason) override { transport_.abort(reason); }
  std::optional<std::string> failure() const override { return std::nullopt; }

 private:
  std::string received(std::int32_t from) {
    const std::vector<std::byte> bytes = transport_.receive(from, control_tag).bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  template <class Body>
  static auto guarded(Body body) -> Result<decltype(body())> {
    try {
      return body();
    } catch (const RankFailure& failure) {
      return infeasible(failure.what());
    }
  }

  Transport& transport_;
};

}  // namespace

std::unique_ptr<ControlChannel> make_control_channel(Transport& transport) {
  return std::make_unique<TransportChannel>(transport);
}

}  // namespace plumbline::real::host
