"""/v1/models: the models that are served."""

from fastapi import FastAPI

from chainrule.serving.responses import JsonObject, ModelCard, ModelList, declare
from chainrule.serving.service import Service


def add_routes(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models", summary="The models that are served.", response_model=None, responses=declare(ModelList))
    async def models() -> JsonObject:
        return {"object": "list", "data": [model.to_json() for model in service.models]}

    @app.get("/v1/models/{id:path}", summary="One model.", response_model=None, responses=declare(ModelCard))
    async def model(id: str) -> JsonObject:
        return service.models.find(id).to_json()
