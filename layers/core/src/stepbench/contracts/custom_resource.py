"""CloudFormation's requests to a custom resource's function, and the answers; names are CloudFormation's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Document(BaseModel):
    """A document of CloudFormation, which may add fields at any time."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class DsqlClusterProperties(_Document):
    """A cluster in another region; with `PeerArn` and `WitnessRegion` the peer of one that is there already."""

    Kind: Literal["cluster"]
    Region: str = Field(min_length=1)
    Stack: str = Field(min_length=1)
    PeerArn: str = ""
    WitnessRegion: str = ""
    Attributes: tuple[str, ...] = Field(
        default=(), description="That the template reads: with another one, CloudFormation asks again."
    )


class DsqlRoleProperties(_Document):
    """The IAM roles that may log in to the cluster: as the role that makes tables, and as that of the load."""

    Kind: Literal["role"]
    Endpoint: str = Field(min_length=1)
    IamRoles: tuple[str, ...]
    WriterRoles: tuple[str, ...]


DSQL_PROPERTIES: TypeAdapter[DsqlClusterProperties | DsqlRoleProperties] = TypeAdapter(
    Annotated[DsqlClusterProperties | DsqlRoleProperties, Field(discriminator="Kind")]
)


class CustomResourceRequest(_Document):
    """
    One request; without `PhysicalResourceId` it is the first for the resource.

    What is wrong with `ResourceProperties` (see `DSQL_PROPERTIES`) is answered like any other failure.
    """

    RequestType: Literal["Create", "Update", "Delete"]
    ResponseURL: str
    StackId: str
    RequestId: str
    LogicalResourceId: str
    PhysicalResourceId: str = ""
    ResourceProperties: dict[str, Any] = {}


class CustomResourceAnswer(_Document):
    """The answer that is put to `ResponseURL`; `Data` are the resource's attributes."""

    Status: Literal["SUCCESS", "FAILED"]
    Reason: str = ""
    PhysicalResourceId: str
    StackId: str
    RequestId: str
    LogicalResourceId: str
    Data: dict[str, str] = {}


class BootstrapDsqlInput(CustomResourceRequest):
    """A request about a cluster in another region, or about who may log in to one."""


class DropResultsInput(CustomResourceRequest):
    """A request about the results bucket, named in its properties; `Pass` counts our own calls for it."""

    Pass: int = 1


class DropResultsOutput(_Document):
    """What one call has done: `removed` entries of the bucket; not `done`: another call goes on."""

    removed: int = 0
    done: bool = True
    reason: str = ""
