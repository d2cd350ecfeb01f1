//! Generates the messages and the stub from `proto`, without `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use protox::file::{ChainFileResolver, DescriptorSetFileResolver, GoogleFileResolver, IncludeFileResolver};

/// The directory of the definitions, relative to this crate.
const PROTO: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}/topicpolicies");
    let mut resolver = ChainFileResolver::new();
    resolver.add(IncludeFileResolver::new(PROTO.into()));
    resolver.add(DescriptorSetFileResolver::new(google_rpc()?));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(["topicpolicies/v1/service.proto", "topicpolicies/v1/history.proto"])?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_server(false)
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// The definitions of `google.rpc`. `tonic-types` has them under file names without a directory.
fn google_rpc() -> Result<FileDescriptorSet, prost::DecodeError> {
    let mut set = FileDescriptorSet::decode(tonic_types::pb::FILE_DESCRIPTOR_SET)?;
    for file in &mut set.file {
        if let ("google.rpc", Some(name)) = (file.package.as_deref().unwrap_or_default(), &mut file.name) {
            *name = format!("google/rpc/{name}");
        }
    }
    Ok(set)
}
