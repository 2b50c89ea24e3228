#include "real/host/comm/control.h"

#include <cstddef>
#include <type_traits>

#include "real/executor/infeasible.h"

namespace plumbline::real::host {
namespace {

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

  model::Result<void> send(std::int32_t rank, const std::string& bytes) override {
    return guarded([&] { transport_.send(rank, control_tag, packet_of(bytes)); });
  }

  model::Result<std::string> receive(std::int32_t rank) override {
    return guarded([&] {
      const std::vector<std::byte> bytes = transport_.receive(rank, control_tag).bytes;
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
  }

  void abort(const std::string& reason) override { transport_.abort(reason); }
  std::optional<std::string> failure() const override { return std::nullopt; }

 private:
  template <class Body>
  static auto guarded(Body body) -> model::Result<decltype(body())> {
    try {
      if constexpr (std::is_void_v<decltype(body())>) {
        body();
        return {};
      } else {
        return body();
      }
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
