#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"
#include "topologies/formats.h"
#include "topologies/topology.h"

namespace plumbline::topologies {
namespace {

using tests::TemporaryDirectory;

std::string gpu(const std::string& bus, const std::string& inside, const std::string& attributes = "sm=\"90\"",
                const std::string& device = "0x2330") {
  return "<pci busid=\"" + bus + "\" device=\"" + device +
         "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n<gpu " + attributes + ">\n" + inside +
         "</gpu>\n</pci>\n";
}

std::string nic(const std::string& name, const std::string& speed) {
  return "<pci><nic><net name=\"" + name + "\" speed=\"" + speed + "\"/></nic></pci>\n";
}

std::string link(const std::string& target, int count, const std::string& element = "nvlink") {
  const std::string kind = target == "switch" ? "0x068000" : "0x030200";
  return "<" + element + " target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" + kind +
         "\"/>\n";
}

std::string dump(const std::string& inside) {
  return "<system version=\"1\">\n<cpu>\n" + inside + "</cpu>\n</system>\n";
}

// Imports, writes the result next to the dump and loads it as any other topology.
Topology loaded(const std::string& xml, std::size_t notes) {
  const TemporaryDirectory folder;
  const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
  EXPECT_TRUE(imported) << to_string(imported.error());
  EXPECT_EQ(imported->notes.size(), notes);
  const auto topology =
      load_topology(folder.write("node.toml", imported->toml).string(), tests::shipped("topologies/devices"), {});
  EXPECT_TRUE(topology) << to_string(topology.error());
  return *topology;
}

TEST(NcclTopology, LinksToSwitches) {
  const std::string links = link("switch", 9) + link("switch", 9);
  const Topology topology =
      loaded(dump(gpu("0:1", links) + gpu("0:2", links) + nic("a", "400000") + nic("b", "400000")), 1);
  EXPECT_EQ(topology.fabric.interconnect, Interconnect::switched);
  EXPECT_EQ(topology.fabric.gpus_per_node, 2);
  EXPECT_DOUBLE_EQ(topology.fabric.gpu_bandwidth, 18 * 25e9);
  EXPECT_EQ(topology.fabric.nics, 2);
  EXPECT_DOUBLE_EQ(topology.fabric.nic_bandwidth, 50e9);
  EXPECT_EQ(topology.cluster.device.name, "h100-sxm");
}

TEST(NcclTopology, AMeshOfInfinityFabric) {
  // The PCI devices are those of a host and of a virtual machine.
  for (const auto& [name, device] :
       {std::pair{"942", "0x74a1"}, std::pair{"gfx942", "0x74b5"}, std::pair{"gfx942:sramecc+:xnack-", "0x74b5"}}) {
    const std::string gcn = "sm=\"304\" gcn=\"" + std::string(name) + "\"";
    const auto mesh_gpu = [&](const std::string& own, const std::string& one, const std::string& two) {
      return gpu(own, link(one, 1, "xgmi") + link(two, 1, "xgmi"), gcn, device);
    };
    const Topology topology =
        loaded(dump(mesh_gpu("1", "2", "3") + mesh_gpu("2", "1", "3") + mesh_gpu("3", "1", "2")), 1);  // no NIC
    EXPECT_EQ(topology.fabric.interconnect, Interconnect::mesh) << name;
    EXPECT_DOUBLE_EQ(topology.fabric.peer_bandwidth(), 64e9) << name;
    EXPECT_EQ(topology.fabric.layers, 0) << name;
    EXPECT_EQ(topology.cluster.device.name, "mi300x") << name;
  }
}

// Dumps of virtual machines have PCI devices of their own, and older kernels print speeds otherwise.
TEST(NcclTopology, GpusAreKnownByTheirPciDevices) {
  const TemporaryDirectory folder;
  const auto device = [&](const char* attributes, const char* pci) {
    const std::string xml = dump(gpu("1", "", attributes, pci) + gpu("2", "", attributes, pci));
    const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
    const std::string toml = imported ? imported->toml : to_string(imported.error());
    const std::size_t begin = toml.find("device = \"") + 10;
    return toml.substr(begin, toml.find('"', begin) - begin);
  };
  EXPECT_EQ(device("sm=\"304\" gcn=\"gfx942\"", "0x74b9"), "mi325x");
  EXPECT_EQ(device("sm=\"256\" gcn=\"950\"", "0x75b0"), "mi350x");
  EXPECT_EQ(device("sm=\"256\" gcn=\"gfx950:sramecc+:xnack-\"", "0x75a3"), "mi355x");
  EXPECT_EQ(device("sm=\"100\"", "0x2941"), "gb200");
  EXPECT_EQ(device("sm=\"103\"", "0x31c2"), "gb300");
  EXPECT_EQ(device("sm=\"70\"", "0x1db8"), "v100-sxm");
  std::string older = dump(gpu("1", "") + gpu("2", ""));
  const std::string_view printed = "32.0 GT/s PCIe";
  for (std::size_t at = 0; (at = older.find(printed)) != std::string::npos;)
    older.replace(at, printed.size(), "32 GT/s");
  EXPECT_DOUBLE_EQ(loaded(older, 2).fabric.gpu_bandwidth, 64e9);
}

TEST(NcclTopology, AMeasuredProfileIsTheDefault) {
  const TemporaryDirectory folder;
  const auto profile = [&](const char* attributes, const char* device) {
    const std::string xml = dump(gpu("1", link("switch", 12), attributes, device));
    const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
    return imported ? imported->toml : to_string(imported.error());
  };
  EXPECT_NE(profile("sm=\"80\"", "0x20b0").find("default_profile = \"a100-40gb\""), std::string::npos);
  EXPECT_NE(profile("sm=\"90\"", "0x2330").find("default_profile = \"h100\""), std::string::npos);
}

TEST(NcclTopology, WithoutLinksOverPcie) {
  // 32 GT/s on 16 lanes; the notes name PCIe, the omitted NIC and the network.
  const Topology topology = loaded(dump(gpu("1", "") + gpu("2", "") + nic("a", "200000") + nic("b", "25000")), 3);
  EXPECT_DOUBLE_EQ(topology.fabric.gpu_bandwidth, 64e9);
  EXPECT_EQ(topology.fabric.nics, 1);
}

TEST(NcclTopology, MoreNicsThanGpusAreDealtEvenly) {
  const std::string links = link("switch", 18);
  const Topology topology =
      loaded(dump(gpu("1", links) + gpu("2", links) + nic("a", "200000") + nic("b", "200000") + nic("c", "200000")), 2);
  EXPECT_EQ(topology.fabric.nics, 2);
}

TEST(NcclTopology, UnknownPartsAreReported) {
  const TemporaryDirectory folder;
  const std::string links = link("switch", 18) + "<odd/>\n";
  const std::string xml = dump("<fan/>\n" + gpu("1", links, "sm=\"90\"", "0xffff"));
  const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
  ASSERT_TRUE(imported) << to_string(imported.error());
  ASSERT_EQ(imported->notes.size(), 4u);
  EXPECT_NE(imported->notes[0].find("h100-sxm is assumed"), std::string::npos);
  EXPECT_NE(imported->notes[1].find("no NIC"), std::string::npos);
  EXPECT_NE(imported->notes[2].find("'fan', first on line 3"), std::string::npos);
  EXPECT_NE(imported->notes[3].find("'odd', first on line 7"), std::string::npos);
}

TEST(NcclTopology, WrongFiles) {
  const TemporaryDirectory folder;
  const auto expect = [&](const std::string& xml, int line, const std::string& key, const char* says) {
    const std::string path = folder.write("node.xml", xml).string();
    tests::expect_error(import_nccl_topology(path), model::ErrorKind::input, path, line, key, says);
  };
  expect("<system>\n<cpu>\n</system>\n", 3, "", "broken XML");
  expect("<graphs/>\n", 0, "", "no element 'system'");
  expect(dump(""), 0, "", "has no GPU");
  expect(dump(gpu("1", "", "dev=\"0\"")), 4, "gpu.sm", "'' is not a number above 0");
  expect(dump(gpu("1", link("switch", 0))), 5, "nvlink.count", "'0' is not a number above 0");
  expect(dump(gpu("1", "") + nic("a", "fast")), 7, "net.speed", "'fast'");
  expect(dump(gpu("1", link("switch", 4)) + gpu("2", link("switch", 2))), 9, "", "differs from the first, on line 4");
  expect(dump(gpu("1", link("switch", 4), "sm=\"50\"")), 4, "", "links of sm50");
  expect(dump(gpu("1", link("2", 1)) + gpu("2", link("1", 1)) + gpu("3", link("1", 1))), 4, "", "neither by switches");
}

}  // namespace
}  // namespace plumbline::topologies
